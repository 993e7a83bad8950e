// SPDX-License-Identifier: Apache-2.0
//
// EngineService is the far half of a RemoteEngine: it serves an EngineClient to whoever holds the other end of a stream socket,
// in the messages of engine_wire.h.
//
// Nobody holds up the engine: an event is laid in an outbox and the engine thread goes on. A request whose window of events
// (EventWindowOf) is used up has no room and pauses alone; when the socket does not drain at all, everybody pauses at
// `outbox_bytes_max`, so memory stays below that and one step's events.
//
// Everything from the socket is checked; what breaks the rules ends the connection. When a connection ends, its requests are
// cancelled. Another one may be served then: requests are known to the engine by numbers of the service's own, so that a client
// may send those that were cut off again at once.
//
// Thread rule: Serve by one thread; Stop and Mute by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/descriptor.h"
#include "base/status.h"
#include "base/wake_event.h"
#include "engine/engine_client.h"

namespace skein::engine {

struct EngineServiceOptions {
  std::size_t outbox_bytes_max = 64u << 20;
  std::size_t frame_bytes_max = 64u << 20;  // of a message that comes in
  // Requests that the engine has no room for wait here; beyond, they end with kError.
  std::size_t backlog_max = 4096;
};

class EngineService {
 public:
  // `engine` outlives it. Errors: kMissing when there is no descriptor left.
  static Result<std::unique_ptr<EngineService>> Create(EngineClient& engine, EngineServiceOptions options = {});

  // Serves the connection until it ends or Stop is called: Ok. Errors: kInvalidFile for what breaks the rules.
  Status Serve(Descriptor connection);
  // Ends Serve, now and later.
  void Stop();
  // Nothing of the engine goes out from now on: what it says is of no worth, since the ranks it computes with have failed. The
  // client keeps its requests and may give them to another engine.
  void Mute() { muted_->store(true); }

 private:
  EngineService(EngineClient& engine, EngineServiceOptions options, WakeEvent wake)
      : engine_(engine), options_(options), wake_(std::make_shared<WakeEvent>(std::move(wake))) {}

  class Connection;

  EngineClient& engine_;
  const EngineServiceOptions options_;
  const std::shared_ptr<WakeEvent> wake_;                                       // shared with sinks, which may live longer
  const std::shared_ptr<std::atomic<bool>> muted_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> stopped_{false};
  std::uint64_t last_request_ = 0;
};

}  // namespace skein::engine
