// SPDX-License-Identifier: Apache-2.0
//
// What a streamed answer says: EventReader cuts a body into server-sent events, GenerationReader takes from them when
// tokens came and how many there were. Used by the load client of `skein bench serve` on its one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skein::app {

class EventReader {
 public:
  // Appends the data of each event that `bytes` completes to `events`. False once an event is longer than
  // kEventBytesMax; nothing is read afterwards.
  bool Feed(std::string_view bytes, std::vector<std::string>& events);

  static constexpr std::size_t kEventBytesMax = 1 << 20;

 private:
  void TakeLine(std::vector<std::string>& events);

  std::string line_, data_;
  bool has_data_ = false;
  bool failed_ = false;
};

// How one request went. Times are seconds; *_s of a request count from its start.
struct RequestOutcome {
  bool completed = false;
  std::string failure;  // why not
  double first_token_s = 0;
  double end_s = 0;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::vector<float> between_s;  // from one event with tokens to the next
};

class GenerationReader {
 public:
  // One event, `at_s` after the request's start. False: the stream cannot be used any more (reason() says why).
  bool OnEvent(std::string_view data, double at_s);
  // The stream is over. Fills all but input_tokens, which it sets only when the server said it.
  void OnEnd(RequestOutcome& outcome);
  const std::string& reason() const { return reason_; }

  static constexpr std::size_t kEventsMax = 1 << 20;

 private:
  bool Fail(std::string reason);

  std::string reason_;
  bool done_ = false;
  bool answered_ = false;  // an event with choices came
  double answered_s_ = 0;  // the first such
  double first_s_ = -1, last_s_ = 0;
  std::int64_t token_events_ = 0;
  std::int64_t prompt_tokens_ = -1, completion_tokens_ = -1;
  std::vector<float> between_s_;
};

// A short reason from the body of an answer that is an error: OpenAI's error.message, or the beginning of the text.
std::string ErrorText(std::string_view body);

}  // namespace skein::app
