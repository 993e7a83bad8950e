// SPDX-License-Identifier: Apache-2.0
//
// HttpAnswerParser reads one HTTP/1.1 answer from bytes as they come, for the load client of `skein bench serve`. The
// server is not trusted: everything it can make long is bounded, and what is no HTTP ends in kFailed with a reason.
//
// One object reads one answer; an interim answer (1xx) before it is skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace skein::app {

class HttpAnswerParser {
 public:
  enum class State { kReading, kDone, kFailed };

  // Reads `bytes` and appends to `body` what of them belongs to the body. After kDone or kFailed nothing is read.
  State Feed(std::string_view bytes, std::string& body);
  // The server has closed: the end of a body without a length, an error anywhere else.
  State FeedEnd();

  State state() const { return state_; }
  // Whether the head is complete; before it there is no status.
  bool has_head() const { return phase_ != Phase::kHead; }
  int status() const { return status_; }
  // Whether a next request may be sent on the connection. Requires: kDone.
  bool keeps_connection() const { return keeps_ && !excess_; }
  // Why it failed. Requires: kFailed.
  const std::string& reason() const { return reason_; }

 private:
  enum class Phase { kHead, kLength, kUntilClose, kChunkSize, kChunkData, kChunkEnd, kTrailer };

  State Fail(std::string reason);
  // Each takes what it can from the front of `bytes`; true when something was taken or the phase changed.
  bool ReadHead(std::string_view& bytes);
  bool ReadChunkSize(std::string_view& bytes);
  bool ReadTrailer(std::string_view& bytes);
  void TakeBody(std::string_view& bytes, std::string& body);
  // A line of at most `bytes_max` into line_, over several calls; true when it is whole.
  bool TakeLine(std::string_view& bytes, std::size_t bytes_max, std::string_view what);
  bool InterpretHead();
  bool InterpretField(std::string_view line);

  State state_ = State::kReading;
  Phase phase_ = Phase::kHead;
  std::string head_, line_;
  std::string reason_;
  int status_ = 0;
  bool keeps_ = true;
  bool excess_ = false;
  bool chunked_ = false;
  bool has_length_ = false;
  std::uint64_t left_ = 0;  // bytes of the body or of the chunk
  std::size_t trailer_bytes_ = 0;
};

}  // namespace skein::app
