// SPDX-License-Identifier: Apache-2.0
//
// The measuring part of `skein bench model` and `skein bench ranks`: prefill (pp) and decode (tg) in tokens a second, through the engine's client
// like any request.
//
// pp: B prompts of D + P tokens are submitted at once, timed from there to the last first token; for D > 0 the time of the
// first D tokens, measured alone, is taken off. tg: B prompts of D tokens (at least one) generate N more each; what
// counts are the tokens that came while all B were generating, first ones not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "api/machine.h"
#include "base/ids.h"
#include "base/status.h"

namespace skein::app {

struct ModelTest {
  int prompt = 0, generate = 0, depth = 0, batch = 1;

  std::string Name() const;  // "pp512", "tg128@d1024×b8"
  // Places in the KV cache of one sequence.
  int Tokens() const;
};


// Gives a machine the cache, the sequences and the context that the tests need.
void FitTests(std::span<const ModelTest> tests, api::Machine& machine);

class TimingSink;

class ModelBench {
 public:
  explicit ModelBench(api::LoadedModel& loaded) : loaded_(loaded) {}

  // Tokens a second of one repetition.
  Result<double> Measure(const ModelTest& test);

 private:
  using Sinks = std::vector<std::shared_ptr<TimingSink>>;

  Result<Sinks> RunBatch(int prompt, int generate, int batch);
  Result<double> PromptSeconds(int prompt, int batch);
  Result<double> DecodeRate(const ModelTest& test);
  std::vector<TokenId> RandomTokens(int count);

  api::LoadedModel& loaded_;
  std::uint64_t state_ = 1;
};

}  // namespace skein::app
