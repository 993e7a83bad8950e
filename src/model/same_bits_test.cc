// SPDX-License-Identifier: Apache-2.0
//
// If these fail, an answer depends on who else is being served, on how a prompt was cut, on the number of threads or on the
// instructions that a processor has. The logits of one sequence are compared bit by bit; the last test shows that the
// comparison catches an arithmetic that depends on the number of rows.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "model/decoder.h"
#include "model/tiny_model_testing.h"

namespace skein::model {
namespace {

using kernels::Arithmetic;
using kernels::KernelPath;

constexpr int kLength = 530;  // of the sequence; beyond two splits of keys and one chunk of 512
constexpr int kFrames = 9 + 64;
const std::vector<int> kPositions = {0, 1, 15, 16, 63, 64, 200, 255, 256, 400, 511, 512, 529};  // whose logits are compared

const std::vector<int> kBatches = {2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 64};

// A type of weights that has the arithmetic, and shapes with odd ends.
TinyShape ShapeFor(DType type) {
  return {.layers = 1, .hidden = 64, .heads = 6, .kv_heads = 2, .head_dim = 16, .feed_forward = 160, .vocabulary = 70,
          .matrices = type, .tied = true, .biases = true, .interleaved = true};
}

std::vector<TokenId> Tokens(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random() % 70));
  return tokens;
}

class Lab {
 public:
  Lab(const TinyModel& file, Arithmetic arithmetic, KernelPath path, int threads, kernels::KvType type) : pool(threads) {
    LoadOptions options;
    options.arithmetic = arithmetic;
    options.path = path;
    auto loaded = Model::Load(file, options, pool);
    SKEIN_CHECK(loaded.ok());
    model = std::move(loaded).value();
    auto store = KvStore::Create(file.config(), type, kFrames);
    SKEIN_CHECK(store.ok());
    kv = std::move(store).value();
    auto made = Decoder::Create(*model, *kv, pool, {.tokens = 512, .outputs = 64});
    SKEIN_CHECK(made.ok());
    decoder = std::move(made).value();
    blocks = ScatteredBlocks(36, 36);
  }

  // Logits of the sequence at `kPositions`, computed in chunks.
  std::vector<float> InChunks(const std::vector<TokenId>& tokens, int chunk) {
    std::vector<float> all;
    for (int begin = 0; begin < static_cast<int>(tokens.size()); begin += chunk) {
      const int count = std::min(chunk, static_cast<int>(tokens.size()) - begin);
      std::vector<std::int32_t> outputs;
      for (const int position : kPositions) {
        if (position >= begin && position < begin + count) outputs.push_back(position - begin);
      }
      const BatchRow row{0, count, begin, blocks};
      const auto logits = decoder->Forward({std::span(tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)), {&row, 1}, outputs}).value();
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  // Logits of the token behind a short prefix, in a batch of `batch` sequences, the one that is looked at at a random place.
  std::vector<float> InBatch(const std::vector<TokenId>& tokens, int batch, unsigned seed) {
    constexpr int kPrefix = 70;
    std::mt19937 random(seed);
    const BatchRow prefix{0, kPrefix, 0, blocks};
    (void)decoder->Forward({std::span(tokens).first(kPrefix), {&prefix, 1}, {}});
    const int place = static_cast<int>(random() % static_cast<unsigned>(batch));
    std::vector<std::vector<BlockId>> other_blocks(static_cast<std::size_t>(batch));
    std::vector<TokenId> batch_tokens;
    std::vector<BatchRow> rows;
    std::vector<std::int32_t> outputs;
    for (int i = 0; i < batch; ++i) {
      const auto first = static_cast<std::int32_t>(batch_tokens.size());
      if (i == place) {
        rows.push_back({first, 1, kPrefix, blocks});
        batch_tokens.push_back(tokens[kPrefix]);
        outputs.push_back(first);
        continue;
      }
      // Others bring between 1 and 5 tokens; a few want logits as well.
      other_blocks[static_cast<std::size_t>(i)].push_back({static_cast<std::uint32_t>(36 + i)});
      const int count = 1 + static_cast<int>(random() % 5);
      rows.push_back({first, count, 0, other_blocks[static_cast<std::size_t>(i)]});
      for (int t = 0; t < count; ++t) batch_tokens.push_back(static_cast<TokenId>(random() % 70));
      if (random() % 2 == 0) outputs.push_back(first);
    }
    const auto logits = decoder->Forward({batch_tokens, rows, outputs}).value();
    std::size_t at = 0;
    while (outputs[at] != rows[static_cast<std::size_t>(place)].first_token) ++at;
    const auto own = logits.subspan(at * 70, 70);
    return {own.begin(), own.end()};
  }

  kernels::ThreadPool pool;
  std::unique_ptr<Model> model;
  std::unique_ptr<KvStore> kv;
  std::unique_ptr<Decoder> decoder;
  std::vector<BlockId> blocks;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// How many of the ways to compute the same logits give other bits than computing one token at a time.
int ChunkDifferences(Lab& lab, const std::vector<TokenId>& tokens, const std::vector<float>& expected) {
  int differences = 0;
  for (const int chunk : {1, 7, 64, 512}) differences += SameBits(lab.InChunks(tokens, chunk), expected) ? 0 : 1;
  return differences;
}
int BatchDifferences(Lab& lab, const std::vector<TokenId>& tokens, const std::vector<int>& batches) {
  int differences = 0;
  const std::vector<float> alone = lab.InBatch(tokens, 1, 1);
  for (const int batch : batches) {
    differences += SameBits(lab.InBatch(tokens, batch, static_cast<unsigned>(batch)), alone) ? 0 : 1;
  }
  return differences;
}

struct Case {
  Arithmetic arithmetic;
  DType weights;
  kernels::KvType kv;
};

class SameBitsTest : public testing::TestWithParam<Case> {};

TEST_P(SameBitsTest, ForChunksBatchesThreadsAndPaths) {
  const auto [arithmetic, weights, kv] = GetParam();
  const TinyModel file(ShapeFor(weights));
  const std::vector<TokenId> tokens = Tokens(kLength, 11);
  Lab first(file, arithmetic, kernels::AvailablePaths().front(), 1, kv);
  const std::vector<float> expected = first.InChunks(tokens, 512);
  ASSERT_EQ(expected.size(), kPositions.size() * 70);
  EXPECT_NE(expected[0], expected[70]);
  for (const KernelPath path : kernels::AvailablePaths()) {
    SCOPED_TRACE(NameOf(path));
    const bool best = path == kernels::AvailablePaths().front();
    Lab lab(file, arithmetic, path, 2, kv);
    if (best) {
      EXPECT_EQ(ChunkDifferences(lab, tokens, expected), 0);
      EXPECT_EQ(BatchDifferences(lab, tokens, kBatches), 0);
    } else {  // may be slow: the beginning only
      const std::vector<TokenId> beginning(tokens.begin(), tokens.begin() + 66);
      const std::vector<float> ours = lab.InChunks(beginning, 64);
      EXPECT_EQ(ours.size(), 6u * 70);
      EXPECT_TRUE(SameBits(ours, {expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(ours.size())}));
      EXPECT_EQ(BatchDifferences(lab, tokens, {3, 40}), 0);
    }
  }
  Lab three(file, arithmetic, kernels::AvailablePaths().front(), 3, kv);
  EXPECT_TRUE(SameBits(three.InChunks(tokens, 64), expected));
  EXPECT_TRUE(SameBits(three.InChunks(tokens, 1), expected));
}

INSTANTIATE_TEST_SUITE_P(
    All, SameBitsTest,
    testing::Values(Case{Arithmetic::kInt8G32, DType::kQ4_1, kernels::KvType::kBf16},
                    Case{Arithmetic::kInt8G32, DType::kQ4_0, kernels::KvType::kInt8},
                    Case{Arithmetic::kInt8G32, DType::kQ8_0, kernels::KvType::kBf16},
                    Case{Arithmetic::kBf16T, DType::kQ4_1, kernels::KvType::kBf16},
                    Case{Arithmetic::kBf16T, DType::kQ4_0, kernels::KvType::kInt8},
                    Case{Arithmetic::kBf16T, DType::kQ8_0, kernels::KvType::kBf16},
                    Case{Arithmetic::kBf16T, DType::kBF16, kernels::KvType::kBf16},
                    Case{Arithmetic::kBf16P, DType::kBF16, kernels::KvType::kBf16},
                    Case{Arithmetic::kBf16P, DType::kQ4_1, kernels::KvType::kInt8},
                    Case{Arithmetic::kInt8G32, DType::kQ4_1, kernels::KvType::kFp8},
                    Case{Arithmetic::kBf16T, DType::kQ4_1, kernels::KvType::kFp8},
                    Case{Arithmetic::kExact, DType::kQ4_1, kernels::KvType::kF32},
                    Case{Arithmetic::kExact, DType::kF16, kernels::KvType::kF32}),
    [](const testing::TestParamInfo<Case>& tested) {
      return std::string(NameOf(tested.param.arithmetic)) + "_" + std::string(InfoOf(tested.param.weights).name) + "_" +
             std::string(NameOf(tested.param.kv));
    });

// A kernel whose results depend a little on how many rows it is given, as those of one that switches its method would.
kernels::LinearKernel g_honest;  // tests only: a kernel is a plain function and can carry nothing

void DependsOnRows(const kernels::PackedLinear& weights, int panel_begin, int panel_end, const kernels::Activations& input,
                   int row_begin, int row_end, const kernels::LinearSink& sink, std::byte* scratch) {
  struct Changed {
    const kernels::LinearSink& to;
    bool many;
    static void Take(void* context, int panel, int row, int rows, const float* tile) {
      const auto& self = *static_cast<const Changed*>(context);
      std::vector<float> changed(tile, tile + rows * kernels::kPanelWidth);
      for (float& value : changed) value = self.many ? value * 1.001f : value;
      self.to.take(self.to.context, panel, row, rows, changed.data());
    }
  } changed{sink, row_end - row_begin > 4};
  g_honest.run(weights, panel_begin, panel_end, input, row_begin, row_end, {&Changed::Take, &changed}, scratch);
}

TEST(SameBitsInverseTest, AnArithmeticThatDependsOnRowsIsCaught) {
  const TinyModel file(ShapeFor(DType::kQ4_1));
  const std::vector<TokenId> tokens = Tokens(kLength, 11);
  Lab lab(file, Arithmetic::kBf16T, kernels::AvailablePaths().front(), 2, kernels::KvType::kBf16);
  const std::vector<float> expected = lab.InChunks(tokens, 512);
  ASSERT_EQ(ChunkDifferences(lab, tokens, expected), 0);
  Matrix& down = const_cast<ModelWeights&>(lab.model->weights()).layers[0].down.front();
  g_honest = down.kernel;
  down.kernel.run = &DependsOnRows;
  EXPECT_GT(ChunkDifferences(lab, tokens, lab.InChunks(tokens, 1)), 0);
  EXPECT_GT(BatchDifferences(lab, tokens, kBatches), 0);
}

// Two models and decoders in one process, running at once, give what each gives alone.
TEST(TwoModelsTest, RunSideBySide) {
  const TinyModel file(ShapeFor(DType::kQ8_0));
  const std::vector<TokenId> tokens = Tokens(100, 3), others = Tokens(100, 4);
  const KernelPath path = kernels::AvailablePaths().front();
  Lab a(file, Arithmetic::kBf16T, path, 2, kernels::KvType::kBf16), b(file, Arithmetic::kInt8G32, path, 2, kernels::KvType::kInt8);
  const std::vector<float> a_alone = a.InChunks(tokens, 16), b_alone = b.InChunks(others, 16);
  std::vector<float> a_together, b_together;
  std::thread other([&] { b_together = b.InChunks(others, 16); });
  a_together = a.InChunks(tokens, 16);
  other.join();
  EXPECT_TRUE(SameBits(a_together, a_alone));
  EXPECT_TRUE(SameBits(b_together, b_alone));
}

}  // namespace
}  // namespace skein::model
