// SPDX-License-Identifier: Apache-2.0
//
// Two engines in one process, answering at the same time: they share nothing, so each gives what it gives alone. Then
// one answer is ended from another thread.
//
//     example_two_engines MODEL [OTHER_MODEL]
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "skein/skein.h"

namespace {

std::vector<std::int32_t> TokensOf(skein::Engine& engine, std::uint64_t seed) {
  skein::GenerateOptions options;
  options.max_tokens = 24;
  options.ignore_stop_tokens = true;
  options.sampling.temperature = 1.0f;
  options.sampling.seed = seed;
  const skein::Result<skein::Answer> answer = engine.Complete("One, two,", options);
  std::vector<std::int32_t> tokens;
  if (!answer.ok()) {
    std::fprintf(stderr, "%s\n", answer.status().message().c_str());
    return tokens;
  }
  for (const skein::GeneratedToken& token : answer->tokens) tokens.push_back(token.token);
  return tokens;
}

}  // namespace

int main(int count, char** values) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: %s MODEL [OTHER_MODEL]\n", values[0]);
    return 2;
  }
  skein::EngineOptions options;
  options.context = 256;
  options.threads = 1;
  skein::Result<skein::Engine> first = skein::Engine::Load(values[1], options);
  skein::Result<skein::Engine> second = skein::Engine::Load(values[count - 1], options);
  for (const auto* engine : {&first, &second}) {
    if (!engine->ok()) {
      std::fprintf(stderr, "%s\n", engine->status().message().c_str());
      return 1;
    }
  }
  const std::vector<std::int32_t> alone_first = TokensOf(*first, 1), alone_second = TokensOf(*second, 2);
  std::vector<std::int32_t> together_first, together_second;
  std::thread other([&] { together_second = TokensOf(*second, 2); });
  together_first = TokensOf(*first, 1);
  other.join();
  const bool same = together_first == alone_first && together_second == alone_second && alone_first.size() == 24;
  std::printf("two engines together give %s as alone\n", same ? "the same tokens" : "OTHER TOKENS");

  skein::Cancellation cancellation;
  std::thread impatient([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancellation.Cancel();
  });
  skein::GenerateOptions long_answer;
  long_answer.max_tokens = 100000;
  long_answer.ignore_stop_tokens = true;
  const skein::Result<skein::Answer> answer = first->Complete(
      "One, two,", long_answer, [](const skein::Piece&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return skein::Next::kContinue;
      },
      &cancellation);
  impatient.join();
  const bool cancelled = answer.ok() && answer->finish_reason == skein::FinishReason::kCancelled;
  std::printf("an answer ended from outside is %s\n", cancelled ? "cancelled" : "NOT CANCELLED");
  return same && cancelled ? 0 : 1;
}
