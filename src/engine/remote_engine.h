// SPDX-License-Identifier: Apache-2.0
//
// RemoteEngine is an EngineClient whose engine runs in another process, behind a stream socket that an EngineService serves. The
// connection may be lost and another one attached, to the same engine or to one that knows nothing: every live request is
// submitted again with the tokens delivered so far, and its sink sees one stream without a gap or a repetition. While there is no
// connection requests wait; one whose deadline passes meanwhile ends with kError, one that is cancelled with kCancelled.
//
// Sinks are called by a thread of its own, and only while they have room; what came before is held here, at most a window of events
// (EventWindowOf) for each request.
//
// Thread rule: as EngineClient; Attach, Detach and Shutdown by any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/wake_event.h"
#include "engine/engine_client.h"
#include "engine/executor.h"
#include "engine/frame_stream.h"
#include "engine/remote_request.h"

namespace skein::engine {

struct RemoteEngineOptions {
  std::size_t requests = 1024;         // alive at once; beyond: kUnavailable
  std::int64_t held_look_ns = 5'000'000;  // how often sinks without room are looked at
  // A connection ended that nobody detached: why. Called by the engine's thread, once for each Attach; may call Detach.
  std::function<void(const Status&)> on_lost = {};
  std::function<std::vector<RankStats>()> ranks = {};  // who knows of them; called by any thread
};

class RemoteEngine final : public EngineClient {
 public:
  // `clock` outlives it and is the one of the engine's process, since deadlines are times on it. Errors: kMissing.
  static Result<std::unique_ptr<RemoteEngine>> Create(RemoteEngineOptions options, const Clock& clock);
  ~RemoteEngine() override;

  // Errors as the engine's Submit has them, once an engine was attached: before, only kUnavailable, and what is wrong with a
  // request comes as its end.
  Status Submit(RequestSpec request, std::shared_ptr<TokenSink> sink) override;
  void Cancel(RequestId request) override;
  void Wake() override;
  // What the engines said, counts of earlier ones added.
  EngineStats Stats() const override;
  std::vector<RankStats> Ranks() const override { return options_.ranks ? options_.ranks() : std::vector<RankStats>(); }
  Status Health() const override;

  // When it returns requests are served, the live ones first. `limits`: of the engine at the other end.
  void Attach(Descriptor connection, const ExecutorLimits& limits);
  // Closes the connection. When it returns nothing of it reaches a sink any more (called by a sink or on_lost: after that call).
  void Detach();
  // Refuses new requests, ends those alive with kCancelled and joins the thread. Calling it again does nothing.
  void Shutdown();

 private:
  struct Submitted {
    RequestSpec spec;
    std::shared_ptr<TokenSink> sink;
    std::int64_t submitted_ns;
  };
  struct Change {
    Descriptor connection;  // none: detach
    ExecutorLimits limits;
  };
  using Requests = std::map<std::uint64_t, RemoteRequest>;  // by RequestId, so that replays keep an order

  RemoteEngine(RemoteEngineOptions options, const Clock& clock, WakeEvent wake);
  void Loop();
  bool TakeOrders();
  void ApplyChange(Change change);
  void TakeSubmitted(Submitted submitted);
  void TakeCancel(RequestId request);
  void Send(RemoteRequest& request);
  void Lose(const Status& status);
  Status Pump();
  Status TakeMessages();
  Status Take(EngineStats stats);
  template <typename Event>
  Status TakeEvent(Event event);
  void Deliver(Requests::iterator request);
  void DeliverHeld();
  void ExpireDeadlines();
  void End(Requests::iterator request, FinishedEvent event);
  void EndEverything();
  void Poll();
  void Order(Change change);

  const RemoteEngineOptions options_;
  const Clock& clock_;
  const WakeEvent wake_;
  // The thread's own:
  std::unique_ptr<FrameStream> stream_;  // none: detached
  ExecutorLimits limits_;
  Requests requests_;
  bool attached_before_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  std::vector<Submitted> submitted_;
  std::vector<RequestId> cancels_;
  std::unordered_set<std::uint64_t> alive_;
  std::optional<Change> change_;
  std::uint64_t changes_asked_ = 0;
  std::uint64_t changes_done_ = 0;
  bool closed_ = false;
  bool attached_ = false;
  std::optional<ExecutorLimits> known_limits_;  // of the last engine
  EngineStats earlier_;                         // counts of engines that were lost, and restarts and replays
  EngineStats latest_;                          // what the engine of now said last

  std::mutex shutdown_mutex_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace skein::engine
