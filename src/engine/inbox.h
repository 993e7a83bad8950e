// SPDX-License-Identifier: Apache-2.0
//
// Inbox is where requests wait until the engine thread takes them: bounded, and a full one says so at once. It also
// knows which requests are alive, so that an id is not used twice and cancels need no bound of their own (one for each
// live request).
//
// Thread rule: Submit, Cancel and Wake by any thread; TakeAll, WaitForWork and Forget by the engine thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "engine/engine_client.h"
#include "scheduler/sequence_state.h"

namespace skein::engine {

// A request on its way in.
struct Arrival {
  RequestId request = {};
  std::uint32_t epoch = 0;
  scheduler::SequenceState state = {};  // its id is given when the engine takes it
  std::shared_ptr<TokenSink> sink = {};
  std::int64_t submitted_ns = 0;
};

class Inbox {
 public:
  // `capacity`: requests that may lie here; `live_max`: requests that may be alive in all.
  Inbox(std::size_t capacity, std::size_t live_max);

  // Errors: kUnavailable when full or closed, kInvalidArgument when the request is alive already.
  Status Submit(Arrival arrival);
  // Remembers the cancel if the request is alive.
  void Cancel(RequestId request);
  // Ends one WaitForWork.
  void Wake();
  // Refuses everything from now on, and wakes.
  void Close();

  bool closed() const;

  // Moves what has come into the two lists (cleared first).
  void TakeAll(std::vector<Arrival>& arrivals, std::vector<RequestId>& cancels);
  // Sleeps until there is something to take, Wake or Close is called, or the time is over (none: no limit).
  void WaitForWork(std::optional<std::int64_t> timeout_ns);
  // The request has ended; its id may be used again.
  void Forget(RequestId request);
  std::size_t waiting_count() const;

 private:
  struct IdHash {
    std::size_t operator()(RequestId id) const { return std::hash<std::uint64_t>()(id.value); }
  };

  const std::size_t capacity_;
  const std::size_t live_max_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  // Under mutex_:
  std::vector<Arrival> arrivals_;
  std::vector<RequestId> cancels_;
  std::unordered_map<RequestId, bool, IdHash> live_;  // → a cancel was taken note of
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace skein::engine
