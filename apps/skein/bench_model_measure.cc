// SPDX-License-Identifier: Apache-2.0
#include "bench_model_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common_options.h"
#include "kernels/attention/attention.h"

namespace skein::app {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

double Seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

// Notes when tokens of one request came, on the engine's thread.
class TimingSink final : public engine::TokenSink {
 public:
  explicit TimingSink(std::size_t tokens) { times_.reserve(tokens); }
  bool HasRoom() const override { return true; }
  void OnPrompt(engine::PromptEvent) override {}
  void OnToken(engine::TokenEvent) override { times_.push_back(std::chrono::steady_clock::now()); }
  void OnFinished(engine::FinishedEvent event) override {
    {
      const std::lock_guard lock(mutex_);
      error_ = event.error;
      finished_ = true;
    }
    ended_.notify_one();
  }

  // Waits for the end; afterwards times() may be read.
  Status WaitForEnd() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return finished_; });
    return error_.empty() ? OkStatus() : InternalError(error_);
  }
  const std::vector<SteadyTime>& times() const { return times_; }

 private:
  std::vector<SteadyTime> times_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool finished_ = false;
  std::string error_;
};

std::string ModelTest::Name() const {
  std::string name = prompt > 0 ? fmt::format("pp{}", prompt) : fmt::format("tg{}", generate);
  if (depth > 0) name += fmt::format("@d{}", depth);
  return batch > 1 ? name + fmt::format("×b{}", batch) : name;
}

int ModelTest::Tokens() const { return depth + std::max(prompt, 1) + generate + 2; }

void ModelTestOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  fields.Group("Tests");
  fields.Add("n-prompt", "LIST", &prompts, "prompt lengths; 0: none").Range(0, 1 << 24).Letter('p');
  fields.Add("n-gen", "LIST", &generate, "tokens generated; 0: none").Range(0, 1 << 24).Letter('n');
  fields.Add("n-depth", "LIST", &depths, "tokens already in the cache").Range(0, 1 << 24).Letter('d');
  fields.Add("batch", "LIST", &batches, "sequences at once").Range(1, 1024).Letter('b');
}

Result<std::vector<ModelTest>> ModelTestOptions::Tests(std::string_view command) const {
  std::vector<ModelTest> tests;
  for (const int batch : batches) {
    for (const int depth : depths) {
      for (const int prompt : prompts) {
        if (prompt > 0) tests.push_back({prompt, 0, depth, batch});
      }
      for (const int count : generate) {
        if (count > 0) tests.push_back({0, count, depth, batch});
      }
    }
  }
  if (tests.empty()) return InvalidArgument(fmt::format("{} needs a test, found -p and -n without any", command), "--n-prompt");
  return tests;
}

void FitTests(std::span<const ModelTest> tests, api::Machine& machine) {
  int longest = 0;
  for (const ModelTest& test : tests) {
    const int frames = (test.Tokens() + kernels::kFrameTokens - 1) / kernels::kFrameTokens + 1;
    machine.kv_tokens = std::max(machine.kv_tokens, static_cast<std::uint64_t>(frames) * kernels::kFrameTokens *
                                                        static_cast<std::uint64_t>(test.batch));
    machine.sequences = std::max(machine.sequences, test.batch);
    machine.step_outputs = std::max(machine.step_outputs, test.batch);
    longest = std::max(longest, test.Tokens());
  }
  if (machine.context == 0) machine.context = longest;
}

Result<double> ModelBench::Measure(const ModelTest& test) {
  if (test.prompt > 0) {
    SKEIN_ASSIGN_OR_RETURN(const double whole, PromptSeconds(test.depth + test.prompt, test.batch));
    double before = 0;
    if (test.depth > 0) {
      SKEIN_ASSIGN_OR_RETURN(before, PromptSeconds(test.depth, test.batch));
    }
    return test.prompt * test.batch / std::max(whole - before, 1e-9);
  }
  return DecodeRate(test);
}

// Submits `batch` prompts that generate `generate` tokens each, and waits for all.
Result<ModelBench::Sinks> ModelBench::RunBatch(int prompt, int generate, int batch) {
  Sinks sinks;
  for (int i = 0; i < batch; ++i) {
    engine::RequestSpec spec;
    spec.request = loaded_.NextRequest();
    spec.tokens = RandomTokens(prompt);
    spec.prompt_tokens = prompt;
    spec.max_tokens = generate;
    spec.sampling.temperature = 0;
    spec.ignore_stop_tokens = true;
    sinks.push_back(std::make_shared<TimingSink>(static_cast<std::size_t>(generate)));
    SKEIN_RETURN_IF_ERROR(loaded_.client().Submit(std::move(spec), sinks.back()));
  }
  for (const auto& sink : sinks) SKEIN_RETURN_IF_ERROR(sink->WaitForEnd());
  return sinks;
}

Result<double> ModelBench::PromptSeconds(int prompt, int batch) {
  const SteadyTime begin = std::chrono::steady_clock::now();
  SKEIN_ASSIGN_OR_RETURN(const Sinks sinks, RunBatch(prompt, /*generate=*/1, batch));
  SteadyTime end = begin;
  for (const auto& sink : sinks) end = std::max(end, sink->times().front());
  return Seconds(end - begin);
}

Result<double> ModelBench::DecodeRate(const ModelTest& test) {
  SKEIN_ASSIGN_OR_RETURN(const Sinks sinks, RunBatch(std::max(test.depth, 1), test.generate + 1, test.batch));
  SteadyTime begin = sinks.front()->times().front(), end = sinks.front()->times().back();
  for (const auto& sink : sinks) {
    begin = std::max(begin, sink->times().front());
    end = std::min(end, sink->times().back());
  }
  std::size_t count = 0;
  for (const auto& sink : sinks) {
    for (const SteadyTime time : sink->times()) count += time > begin && time <= end ? 1 : 0;
  }
  return static_cast<double>(count) / std::max(Seconds(end - begin), 1e-9);
}

std::vector<TokenId> ModelBench::RandomTokens(int count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& token : tokens) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;  // Knuth's MMIX generator
    token = static_cast<TokenId>((state_ >> 33) % static_cast<std::uint64_t>(loaded_.info().vocabulary));
  }
  return tokens;
}

}  // namespace skein::app
