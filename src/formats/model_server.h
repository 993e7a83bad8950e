// SPDX-License-Identifier: Apache-2.0
//
// ModelServer gives bytes of an opened model to processes that have no file of it (RemoteModel), over connections that somebody else has
// let in. One thread of its own serves all of them, a piece at a time in turn, so that none starves; for each connection it holds one
// answer. A connection that asks for what is not a tensor's, or takes nothing for half a minute, is closed.
//
// Thread rule: Add by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "base/wake_event.h"
#include "formats/model_file.h"

namespace skein::formats {

class ModelServer {
 public:
  // `file` outlives it. Errors: kMissing when there is no descriptor left.
  static Result<std::unique_ptr<ModelServer>> Create(const ModelFile& file);
  // Ends all connections.
  ~ModelServer();

  // A stream socket whose other end is known.
  void Add(Descriptor connection);
  // Bytes of tensors sent so far, to all.
  std::uint64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  class Connection;
  ModelServer(const ModelFile& file, WakeEvent wake);
  void Loop();

  const ModelFile& file_;
  const std::vector<std::byte> head_;
  const WakeEvent wake_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> bytes_sent_{0};
  std::mutex mutex_;
  std::vector<Descriptor> arrived_;  // under mutex_
  std::thread thread_;
};

}  // namespace skein::formats
