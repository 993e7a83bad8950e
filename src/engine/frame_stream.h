// SPDX-License-Identifier: Apache-2.0
//
// FrameStream is one end of a stream socket that carries frames of base/wire.h. It never waits: whoever owns it polls the
// descriptor, and reads and writes what goes. What comes in is hostile until checked: a frame of another kind or version, or one
// that claims more than `frame_bytes_max`, is an error as soon as its first 16 bytes are there, and memory follows the bytes that
// came, not those that were announced.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"

namespace skein::engine {

struct FrameStreamOptions {
  std::uint32_t magic = 0;                      // of every frame …
  std::uint16_t version = 0;                    // … and its version
  std::size_t frame_bytes_max = 64u << 20;
};

class FrameStream {
 public:
  FrameStream(Descriptor socket, FrameStreamOptions options);

  int descriptor() const { return socket_.get(); }
  // Takes in what has come, up to some 256 KiB. Errors: kUnavailable when the other end has closed or failed; frames that came
  // before still lie here.
  Status Read();
  // The next whole frame, or nothing. Valid until the next call. Errors: kInvalidFile.
  Result<std::span<const std::byte>> Next();

  void Put(std::vector<std::byte> frame);
  // Sends what goes. Errors: kUnavailable.
  Status Write();
  // Bytes that wait to be sent.
  std::size_t unsent() const { return unsent_; }

 private:
  Descriptor socket_;
  FrameStreamOptions options_;
  std::vector<std::byte> in_;
  std::size_t in_begin_ = 0;   // of in_: where the next frame begins
  std::deque<std::vector<std::byte>> out_;
  std::size_t out_begin_ = 0;  // of out_.front(): what is sent
  std::size_t unsent_ = 0;
};

}  // namespace skein::engine
