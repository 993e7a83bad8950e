// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a model answers differently on a mesh of ranks than on one.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "comm/comm_testing.h"
#include "comm/communicator.h"
#include "comm/transports/shared_memory.h"
#include "model/decoder.h"
#include "model/tiny_model_testing.h"

namespace skein::model {
namespace {

using comm::Axis;
using kernels::Arithmetic;

constexpr int kVocabulary = 71;
constexpr int kTokens = 70;
constexpr int kFrames = 4;

// Odd numbers of everything: 7 slices of the feed-forward, three query heads to each of three KV heads.
TinyShape ShapeFor(DType type) {
  return {.layers = 3, .hidden = 96, .heads = 9, .kv_heads = 3, .head_dim = 32, .feed_forward = 416, .vocabulary = kVocabulary,
          .matrices = type, .tied = true, .biases = true, .interleaved = true, .seed = 5};
}

// Counts what is begun on it.
class CountingTransport final : public comm::Transport {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, std::atomic<int>& reductions)
      : Transport(inner->name(), inner->self(), inner->size(), inner->slot_bytes(), {}), inner_(std::move(inner)), reductions_(reductions) {}
  void set_operation(const char* operation) override {
    if (std::strcmp(operation, "all_reduce") == 0) ++reductions_;
    inner_->set_operation(operation);
  }
  std::byte* Open() override { return inner_->Open(); }
  bool Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) override { return inner_->Post(peer, slot, begin, end); }
  const std::byte* Await(int peer, std::size_t bytes) override { return inner_->Await(peer, bytes); }
  void Release(int peer, comm::Acknowledge when) override { inner_->Release(peer, when); }
  void Settle() override { inner_->Settle(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::atomic<int>& reductions_;
};

struct Options {
  Arithmetic arithmetic = Arithmetic::kExact;
  kernels::KvType kv = kernels::KvType::kF32;
  comm::Places shape{1, 1, 1, 1};
  bool by_slice = false;
  int threads = 1;
  int chunk = kTokens;
  comm::WireTypes wire = {};
  int tokens = kTokens;
  bool overlap = false;
};

struct Outcome {
  std::vector<float> logits;  // [tokens, vocabulary]
  int reductions = 0;         // of all ranks
};

// A mesh of ranks as threads; each prompt token's logits.
class MeshLab {
 public:
  MeshLab(const TinyModel& file, const Options& options)
      : file_(file), options_(options), mesh_(comm::Mesh::Create(options.shape).value()) {
    std::mt19937 random(3);
    for (int i = 0; i < options_.tokens; ++i) tokens_.push_back(static_cast<TokenId>(random() % kVocabulary));
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      tensor_arenas_.push_back(ArenaOf(Axis::kTensor, {rank}));
      pipe_arenas_.push_back(ArenaOf(Axis::kPipe, {rank}));
    }
  }

  Outcome Run() {
    outcome_.logits.resize(static_cast<std::size_t>(options_.tokens * kVocabulary));
    for (const std::string& problem : comm::RunRanks(comm::RankKind::kThreads, mesh_.ranks(), [this](int rank) { return RunRank({rank}); })) {
      EXPECT_EQ(problem, "");
    }
    outcome_.reductions = reductions_;
    return outcome_;
  }

 private:
  // One for the group, at its first member.
  std::unique_ptr<comm::Arena> ArenaOf(Axis axis, comm::Rank rank) {
    const comm::Group group = mesh_.GroupOf(axis, rank);
    if (group.size() == 1 || group.self != 0) return nullptr;
    return std::make_unique<comm::Arena>(comm::Arena::InProcess(group.size()).value());
  }

  std::unique_ptr<comm::Communicator> Join(Axis axis, comm::Rank rank, std::vector<std::unique_ptr<comm::Arena>>& arenas) {
    comm::Group group = mesh_.GroupOf(axis, rank);
    if (group.size() == 1) return nullptr;
    comm::Arena& arena = *arenas[static_cast<std::size_t>(group.ranks.front().value)];
    auto transport = comm::SharedMemoryTransport::Create(arena, group.self, {.timeout = std::chrono::seconds(20), .spin = false});
    return std::make_unique<comm::Communicator>(std::move(group), std::make_unique<CountingTransport>(std::move(transport).value(), reductions_),
                                                comm::CommunicatorOptions{.wire = options_.wire});
  }

  std::string RunRank(comm::Rank rank) {
    const comm::Places at = mesh_.PlacesOf(rank);
    kernels::ThreadPool pool(options_.threads);
    LoadOptions load;
    load.arithmetic = options_.arithmetic;
    load.share = ShareOf(file_.config(), {.shape = options_.shape, .at = at, .by_slice = options_.by_slice});
    auto model = Model::Load(file_, load, pool);
    if (!model.ok()) return std::string(model.status().message());
    auto kv = KvStore::Create((*model)->local(), options_.kv, kFrames);
    if (!kv.ok()) return std::string(kv.status().message());
    const auto tensor = Join(Axis::kTensor, rank, tensor_arenas_), pipe = Join(Axis::kPipe, rank, pipe_arenas_);
    auto decoder = Decoder::Create(**model, **kv, pool, {.tokens = options_.tokens, .outputs = options_.tokens}, {tensor.get(), pipe.get(), options_.overlap});
    if (!decoder.ok()) return std::string(decoder.status().message());
    const std::vector<BlockId> blocks = ScatteredBlocks(4 * kFrames, 4 * kFrames);
    for (int begin = 0; begin < options_.tokens; begin += options_.chunk) {
      const int count = std::min(options_.chunk, options_.tokens - begin);
      std::vector<std::int32_t> outputs;
      for (int i = 0; i < count; ++i) outputs.push_back(i);
      const BatchRow row{0, count, begin, blocks};
      const auto logits = (*decoder)->Forward({std::span(tokens_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)), {&row, 1}, outputs});
      if (!logits.ok()) return std::string(logits.status().message());
      const Span words = load.share->vocabulary;
      for (int i = 0; i < count && load.share->has_head; ++i) {
        std::copy_n(logits->begin() + i * words.size(), words.size(), outcome_.logits.begin() + (begin + i) * kVocabulary + words.begin);
      }
    }
    return "";
  }

  const TinyModel& file_;
  const Options options_;
  const comm::Mesh mesh_;
  std::vector<TokenId> tokens_;
  std::vector<std::unique_ptr<comm::Arena>> tensor_arenas_, pipe_arenas_;
  std::atomic<int> reductions_{0};
  Outcome outcome_;
};

const std::vector<comm::Places> kMeshes = {{1, 1, 1, 2}, {1, 1, 1, 3}, {1, 1, 1, 4}, {1, 1, 1, 5}, {1, 1, 1, 8}, {1, 1, 1, 11},
                                           {1, 2, 1, 1}, {1, 3, 1, 1}, {1, 4, 1, 1}, {1, 2, 1, 2}, {1, 2, 1, 4}};

std::string Named(const comm::Places& places) { return "pipe " + std::to_string(places.pipe) + " tensor " + std::to_string(places.tensor); }

int Differences(const std::vector<float>& a, const std::vector<float>& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  return count;
}

double RootMeanSquare(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

struct Case {
  Arithmetic arithmetic;
  DType weights;
  kernels::KvType kv;
};

class RanksTest : public testing::TestWithParam<Case> {};

TEST_P(RanksTest, LayoutDeterministicMeshesGiveTheBitsOfOneRank) {
  const TinyModel file(ShapeFor(GetParam().weights));
  Options options{.arithmetic = GetParam().arithmetic, .kv = GetParam().kv, .by_slice = true};
  const std::vector<float> expected = MeshLab(file, options).Run().logits;
  for (const comm::Places& shape : kMeshes) {
    options.shape = shape;
    for (const int chunk : {kTokens, 16, 1}) {
      options.chunk = chunk;
      options.threads = chunk == 16 ? 2 : 1;
      EXPECT_EQ(Differences(MeshLab(file, options).Run().logits, expected), 0) << Named(shape) << " chunk " << chunk;
    }
  }
}

TEST_P(RanksTest, DefaultMeshesAreNear) {
  const TinyModel file(ShapeFor(GetParam().weights));
  Options options{.arithmetic = GetParam().arithmetic, .kv = GetParam().kv};
  const std::vector<float> expected = MeshLab(file, options).Run().logits;
  // Another order of sums is rounded otherwise, which moves a result by no more than the arithmetic's rounding has already done.
  const bool exact = options.arithmetic == Arithmetic::kExact;
  const double tolerance = exact ? 1e-4 : RootMeanSquare(MeshLab(file, {}).Run().logits, expected);
  for (const comm::Places& shape : kMeshes) {
    options.shape = shape;
    options.chunk = kTokens;
    const Outcome whole = MeshLab(file, options).Run();
    if (shape.tensor == 1) {
      EXPECT_EQ(Differences(whole.logits, expected), 0) << Named(shape);
      continue;
    }
    EXPECT_LT(RootMeanSquare(whole.logits, expected), tolerance) << Named(shape);
    options.chunk = 9;
    EXPECT_EQ(Differences(MeshLab(file, options).Run().logits, whole.logits), 0) << Named(shape) << ": chunks change bits";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RanksTest,
                         testing::Values(Case{Arithmetic::kExact, DType::kF32, kernels::KvType::kF32},
                                         Case{Arithmetic::kInt8G32, DType::kQ4_1, kernels::KvType::kBf16},
                                         Case{Arithmetic::kInt8G32, DType::kQ8_0, kernels::KvType::kInt8},
                                         Case{Arithmetic::kBf16T, DType::kQ4_0, kernels::KvType::kBf16},
                                         Case{Arithmetic::kBf16P, DType::kBF16, kernels::KvType::kBf16}),
                         [](const auto& tested) { return std::string(NameOf(tested.param.arithmetic)) + "_" + std::to_string(tested.index); });

// Parts of a step whose sums travel while others are computed must be the same step; more ranks than heads, chunks across the middle, several threads.
TEST_P(RanksTest, OverlapChangesNoBit) {
  const TinyModel file(ShapeFor(GetParam().weights));
  for (const comm::Places& shape : {comm::Places{1, 1, 1, 2}, {1, 2, 1, 2}, {1, 1, 1, 11}}) {
    Options options{.arithmetic = GetParam().arithmetic, .kv = GetParam().kv, .shape = shape, .tokens = 205};
    for (const int chunk : {205, 137}) {
      options.chunk = chunk;
      options.threads = shape.tensor == 2 ? 2 : 1;
      options.overlap = false;
      const std::vector<float> expected = MeshLab(file, options).Run().logits;
      options.overlap = true;
      EXPECT_EQ(Differences(MeshLab(file, options).Run().logits, expected), 0) << Named(shape) << " chunk " << chunk;
    }
  }
}

// A third one would cost a tensor mesh half as much communication again.
TEST(Ranks, ReduceTwiceALayerAndNoMore) {
  const TinyModel file(ShapeFor(DType::kF32));
  const Outcome outcome = MeshLab(file, {.shape = {1, 1, 1, 4}, .chunk = 35}).Run();
  EXPECT_EQ(outcome.reductions, 4 * 2 * 3 * 2);  // ranks, steps, layers, two each
}

}  // namespace
}  // namespace skein::model
