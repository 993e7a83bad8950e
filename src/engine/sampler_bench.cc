// SPDX-License-Identifier: Apache-2.0
//
// sampler_bench: microseconds to choose one token on one thread, by size of the vocabulary, shape of the distribution and
// parameters; the median of many, each of other logits in turn, so that branches are not learnt by heart.
//
//   sampler_bench [--kernels PATH]
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include "engine/sampler.h"
#include "kernels/arithmetic.h"

namespace skein::engine {
namespace {

constexpr int kRows = 8;  // of other logits

struct Shape {
  const char* name;
  float deviation;  // of the logits
  int likely;       // tokens that stand out, as a model's few good continuations do
};

std::vector<std::vector<float>> LogitsOf(const Shape& shape, int vocabulary) {
  std::vector<std::vector<float>> rows;
  for (unsigned row = 0; row < kRows; ++row) {
    std::mt19937 random(row + 1);
    std::normal_distribution<float> normal(0.0f, shape.deviation);
    std::vector<float>& logits = rows.emplace_back(static_cast<std::size_t>(vocabulary));
    for (float& logit : logits) logit = normal(random);
    for (int i = 0; i < shape.likely; ++i) logits[random() % logits.size()] += 10.0f + 3.0f * normal(random) / shape.deviation;
  }
  return rows;
}

double MedianMicroseconds(const std::vector<std::vector<float>>& rows, const scheduler::SamplingParameters& parameters,
                          kernels::KernelPath path) {
  Sampler sampler(path, static_cast<std::int32_t>(rows[0].size()));
  scheduler::SequenceStart start;
  start.sampling = parameters;
  const SamplerState state(start);
  std::vector<double> times;
  for (std::int32_t position = 1; position <= 25 * kRows; ++position) {
    const auto begin = std::chrono::steady_clock::now();
    const scheduler::ScoredToken token =
        sampler.Sample(rows[static_cast<std::size_t>(position) % kRows], state, {.position = position});
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    if (token.token < 0) std::abort();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

int Main(int argc, char** argv) {
  _mm_setcsr(_mm_getcsr() | 0x8040);  // as workers do
  const struct {
    const char* name;
    scheduler::SamplingParameters parameters;
  } ways[] = {{"greedy", {.temperature = 0}},
              {"t 1", {}},
              {"t 0.7", {.temperature = 0.7f}},
              {"k 50", {.top_k = 50}},
              {"k 1000", {.top_k = 1000}},
              {"p .95", {.top_p = 0.95f}},
              {"t .7 p .95", {.temperature = 0.7f, .top_p = 0.95f}},
              {"k 50 p .9", {.top_k = 50, .top_p = 0.9f}},
              {"min-p .05", {.min_p = 0.05f}}};
  std::printf("%-12s %-10s %-7s", "kernels", "vocabulary", "logits");
  for (const auto& way : ways) std::printf(" %10s", way.name);
  std::printf("   microseconds\n");
  for (const kernels::KernelPath path : kernels::AvailablePaths()) {
    const std::string name(NameOf(path));
    if (argc == 3 ? name != argv[2] : path == kernels::KernelPath::kRef) continue;
    for (const int vocabulary : {49152, 151936}) {
      for (const Shape& shape : {Shape{"peaked", 2.5f, 40}, {"flat", 2.0f, 0}, {"equal", 0.01f, 0}}) {
        const std::vector<std::vector<float>> rows = LogitsOf(shape, vocabulary);
        std::printf("%-12s %-10d %-7s", name.c_str(), vocabulary, shape.name);
        for (const auto& way : ways) std::printf(" %10.1f", MedianMicroseconds(rows, way.parameters, path));
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace skein::engine

int main(int argc, char** argv) { return skein::engine::Main(argc, argv); }
