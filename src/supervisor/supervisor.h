// SPDX-License-Identifier: Apache-2.0
//
// Supervisor keeps a model served by processes of ranks, whatever becomes of these. It holds no weights and is no rank: it starts a
// replica, speaks to its first rank's engine, and when a rank dies, freezes or gives up, ends what is left of the replica and starts
// another one. Requests outlive that (engine::RemoteEngine): their clients see a pause and then the same answer.
//
// The first start is the program's own: what is wrong then is wrong with the command, and nothing is tried again. Later ones are
// tried until one goes well, after 0, 0.2, 0.4 … 5 s.
//
// Thread rule: client() as EngineClient says; the rest by one thread. Callbacks come from the supervisor's own thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wake_event.h"
#include "engine/engine_client.h"
#include "engine/remote_engine.h"
#include "supervisor/replica.h"

namespace skein::supervisor {

struct SupervisorOptions {
  ReplicaOptions replica = {};
  std::vector<engine::RankStats> ranks = {};  // what is known of them beforehand, by rank
  std::function<void(LogLevel, std::string_view)> log = {};
};

// kInvalidArgument, naming the command to use, when mpirun started this process: whoever serves is in no MPI job.
Status RefuseInsideMpiJob(int ranks);

class Supervisor {
 public:
  // Returns when all ranks are loaded. Errors: as the rank's body has them, with its code, message and field; kMissing for what is not
  // installed; kInvalidArgument inside an MPI job.
  static Result<std::unique_ptr<Supervisor>> Start(SupervisorOptions options);
  ~Supervisor();

  engine::EngineClient& client() const { return *remote_; }
  // Of the first start; later ones are held to the same context and cache.
  const RankFacts& facts() const { return facts_; }
  // Of the ranks that live now, by rank; -1: not known.
  std::vector<pid_t> pids() const;
  // What ranks have done since the start, those of lost replicas included; by rank. Also what client().Ranks() says.
  std::vector<engine::RankStats> Ranks() const;
  // Ends requests with kCancelled and the ranks in order. Calling it again does nothing.
  void Shutdown();

 private:
  explicit Supervisor(SupervisorOptions options, WakeEvent wake) : options_(std::move(options)), wake_(std::move(wake)) {}
  void Run();
  Status RunReplica(std::uint64_t incarnation, bool& went_well);
  void NoteStart(const Replica& replica);
  void NoteLoads(const Replica& replica);
  void NoteEnd(const Replica& replica);
  bool Pause(std::chrono::milliseconds time);
  void Log(LogLevel level, std::string_view text) const;
  bool stopping() const;
  bool LostEngine() const;

  SupervisorOptions options_;  // the thread's, once it runs
  const WakeEvent wake_;
  const SteadyClock clock_;
  std::unique_ptr<engine::RemoteEngine> remote_;
  RankFacts facts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  enum class First { kWaits, kDone, kFailed } first_ = First::kWaits;
  Status first_error_;
  Status engine_lost_;      // what ended the connection of now
  bool engine_is_lost_ = false;
  bool stopping_ = false;
  std::vector<pid_t> pids_;
  std::vector<engine::RankStats> earlier_;  // of replicas that were lost
  std::vector<engine::RankLoad> loads_;     // of the one of now

  std::thread thread_;
};

}  // namespace skein::supervisor
