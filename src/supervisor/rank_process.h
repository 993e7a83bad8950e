// SPDX-License-Identifier: Apache-2.0
//
// The inside of a rank's process: it finds its supervisor, is told what it is to do, does it, and sends a beat meanwhile. It ends by
// itself when the supervisor closes its channel or sends no beat for five seconds, so nothing outlives a supervisor, whatever
// ended that.
//
// What a rank does is its *body*, a function: it loads, and gives back what there is then. For the first rank that is an engine,
// which is served to the supervisor; for the others a function that runs until it is told to stop or its group fails.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "base/wake_event.h"
#include "engine/engine_client.h"
#include "engine/frame_stream.h"
#include "supervisor/control_wire.h"
#include "supervisor/rank_setup.h"

namespace skein::engine {
class EngineService;
}

namespace skein::supervisor {

// How often a beat is sent, how long the supervisor may be silent.
inline constexpr std::chrono::milliseconds kBeatEvery{200};
inline constexpr std::chrono::milliseconds kSupervisorPatience{5000};

// The descriptor of a rank's control channel, where it is inherited.
inline constexpr int kControlDescriptor = 3;
// Otherwise these name the supervisor's socket (endpoint.h) and hold the replica's secret.
inline constexpr const char* kSocketVariable = "SKEIN_RANK_SOCKET";
inline constexpr const char* kSecretVariable = "SKEIN_RANK_SECRET";

class RankContext;

// What a body has made.
struct RankWork {
  RankFacts facts = {};
  std::shared_ptr<engine::EngineClient> client = {};  // of the first rank: it owns all that it needs
  std::function<Status()> run = {};                   // of the others; Ok: told to stop
  std::function<engine::RankLoad()> load = {};        // what it has done, for beats; called by any thread
};
using RankBody = std::function<Result<RankWork>(RankContext&)>;

// A rank's whole life. What goes wrong is told to the supervisor, or to standard error where there is none. Does not return: threads of a
// failed group may wait for ever.
[[noreturn]] void RunRank(const RankBody& body);

// A rank's side of its control channel. Thread rule: functions by any thread.
class RankContext {
 public:
  // Finds the supervisor and waits for the setup. Errors: kInvalidArgument when this process was not started as a rank; kUnavailable;
  // kInvalidFile when the supervisor is of another build or the model is another one. What follows the connection is reported there, too.
  static Result<std::unique_ptr<RankContext>> Join();
  ~RankContext();

  const RankSetup& setup() const { return setup_; }
  // Whether the model's bytes come from the supervisor: there is no such file on this host.
  bool model_is_remote() const { return model_is_remote_; }
  // What a time on the supervisor's clock is later on this host's; 0 where they share one.
  std::int64_t clock_offset_ns() const { return clock_offset_ns_; }
  // A connection to whoever gives them (formats::OpenRemoteModel). Errors: kUnavailable.
  Result<Descriptor> ConnectToModel() const;
  // How far loading is, in bytes; may be said often.
  void Progress(std::uint64_t done, std::uint64_t total);
  bool stopping() const { return stopping_.load(); }
  void WaitForStop();
  // The ranks that this one computes with cannot go on: `status` names the lost one. Nothing that the engine says from now on reaches
  // anybody, the supervisor ends the replica and starts another one, and requests go on there. Does not wait.
  void Fail(const Status& status);

 private:
  friend void RunRank(const RankBody& body);
  RankContext(Descriptor control, Descriptor engine, WakeEvent wake);
  static Result<std::unique_ptr<RankContext>> Connect();
  Status WaitForSetup();
  Status Check();
  Status Work(const RankBody& body);
  Status Serve(engine::EngineClient& client);
  void Loop();
  void Take(const ControlMessage& message);
  void Send(ControlMessage message);
  // Returns when all that was sent has left, or after a second.
  void Flush();
  engine::RankLoad Load();

  RankSetup setup_;
  std::string endpoint_;   // of ranks that inherited nothing
  HelloMessage hello_;
  bool model_is_remote_ = false;
  std::int64_t clock_offset_ns_ = 0;
  Descriptor engine_;
  engine::FrameStream control_;  // the thread's own, once it runs
  const WakeEvent wake_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ControlMessage> outgoing_;              // under mutex_
  bool idle_ = true;                                  // under mutex_: nothing waits to be sent
  engine::EngineService* service_ = nullptr;          // under mutex_: to be stopped and muted
  bool failed_ = false;                               // under mutex_
  std::function<engine::RankLoad()> load_;            // under mutex_
  std::chrono::steady_clock::time_point last_progress_;  // under mutex_
  std::thread thread_;
};

}  // namespace skein::supervisor
