// SPDX-License-Identifier: Apache-2.0
//
// Replica is one life of a group of rank processes: started together, watched, ended together. A rank is lost when its process ends,
// its channel closes, it says so itself, or it sends no beat for two seconds; then Watch gives an error and the whole replica is of
// no use. Nothing of a replica outlives it: not a process, stopped ones included, and no memory, since what ranks share has no name.
//
// Thread rule: one thread (Launcher's).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "base/wake_event.h"
#include "comm/transports/arena.h"
#include "engine/frame_stream.h"
#include "supervisor/control_wire.h"
#include "supervisor/launcher.h"
#include "supervisor/rank_setup.h"

namespace skein::supervisor {

struct ArenaShape {
  int members = 0;
  std::size_t slot_bytes = comm::Arena::kSlotBytes;
};

struct ReplicaOptions {
  RankSetup setup = {};            // rank, incarnation and descriptors are filled in
  std::vector<ArenaShape> arenas = {};  // shared memory between ranks
  Program program = {};
  // Of ranks on other hosts (transport mpi): where, which program, and the address of this host at which they find this process ("ADDR" or
  // "ADDR:PORT"; empty: the one on the way to them).
  std::vector<HostShare> hosts = {};
  std::string remote_program = {};
  std::string control_address = {};
  bool by_network = false;  // ranks come to an address, though no hosts are named: those of a batch job
  // Takes a connection of a rank that wants the model's bytes (RankSetup::streamed); a rank has one.
  std::function<void(Descriptor)> serve_model = {};
  std::chrono::milliseconds rank_patience{2000};    // without a beat, once it is loaded …
  std::chrono::milliseconds load_patience{10000};   // … and before: mapping and touching much memory may stop all its threads
  std::chrono::milliseconds start_patience{30000};  // until every rank has come
  std::chrono::milliseconds stop_patience{3000};
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // of loading, all ranks together
};

class Replica {
 public:
  // Starts the processes. Errors: kMissing; kInvalidArgument for a mesh or transport that cannot be.
  static Result<std::unique_ptr<Replica>> Start(const ReplicaOptions& options, std::uint64_t incarnation);
  ~Replica();

  // Waits for news, at most a tenth of a second or until `wake` is set, and sends beats. Errors: what happened to which rank; as a rank
  // reported it while it was loading.
  Status Watch(const WakeEvent& wake);
  // All ranks are loaded.
  bool ready() const;
  const RankFacts& facts() const { return ranks_.front().facts; }
  // The connection to the first rank's engine; once.
  Descriptor TakeEngine() { return std::move(engine_); }
  // Tells all ranks to end and waits; whoever does not is killed.
  void Stop();
  std::vector<pid_t> pids() const;
  // What the ranks have done, as their last beats said; by rank.
  std::vector<engine::RankLoad> loads() const;
  // The rank whose loss Watch told of; -1: not one alone.
  int lost() const { return lost_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    Child child;                                     // where ranks are children of this process
    pid_t pid = -1;                                  // as far as it is known
    std::unique_ptr<engine::FrameStream> control;  // none: it has not come yet
    Clock::time_point heard = {};
    bool ready = false;
    bool has_model = false;  // it has had its connection to the model
    RankFacts facts = {};
    std::uint64_t done = 0, total = 0;
    engine::RankLoad load = {};
  };
  // A connection that has not said who it is.
  struct Guest {
    std::unique_ptr<engine::FrameStream> stream;
    pid_t pid = -1;
    Clock::time_point came = {};
  };

  explicit Replica(const ReplicaOptions& options) : options_(options) {}
  Status StartChildren();
  Status StartMpirun();
  Status Listen();
  RankSetup SetupOf(int rank) const;
  Status Look();
  Status TakeFrom(int rank);
  Status Take(int rank, const ControlMessage& message);
  void Beat();
  Status LookForLost();
  void Receive();
  void ReceiveFrom(Guest& guest);
  void Admit(Guest& guest, const HelloMessage& hello);
  void ReadOutput();
  bool HasEnded(Rank& rank);
  Status Lost(int rank, std::string_view how);

  const ReplicaOptions& options_;
  std::uint64_t incarnation_ = 0;
  std::vector<comm::Arena> arenas_;
  std::vector<int> arena_descriptors_;
  std::vector<Rank> ranks_;
  int lost_ = -1;
  Descriptor engine_;
  Clock::time_point started_ = {}, looked_ = {}, next_beat_ = {};
  // With mpirun:
  Child launcher_;
  Descriptor listener_, output_;
  std::string endpoint_, secret_;
  std::string folder_;  // mpirun's files
  std::vector<Guest> guests_;
  std::string said_;  // the end of what mpirun and its ranks wrote
};

}  // namespace skein::supervisor
