// SPDX-License-Identifier: Apache-2.0
//
// If these fail, models compute something else than the transformer that their files describe: every feature of the
// llama family on tiny random models, against a double-precision forward pass that shares no code with the decoder.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/tiny_model_testing.h"

namespace skein::model {
namespace {

std::vector<TokenId> SomeTokens(int count, int vocabulary) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + i * i * 11 + 5) % vocabulary);
  return tokens;
}

struct Outcome {
  double error = 1e9;  // worst position's max|a - b| / max(1, max|b|)
  Status status;
};

Outcome RunModel(const TinyShape& shape, std::optional<kernels::Arithmetic> arithmetic, int threads, int token_count = 40,
                 std::optional<kernels::KvType> kv_type = std::nullopt) {
  const TinyModel file(shape);
  kernels::ThreadPool pool(threads);
  LoadOptions options;
  options.arithmetic = arithmetic;
  auto model = Model::Load(file, options, pool);
  if (!model.ok()) return {1e9, model.status()};
  auto kv = KvStore::Create(file.config(), kv_type.value_or(DefaultKvType((*model)->arithmetic())), 8);
  if (!kv.ok()) return {1e9, kv.status()};
  auto decoder = Decoder::Create(**model, **kv, pool, {.tokens = 512, .outputs = 512});
  if (!decoder.ok()) return {1e9, decoder.status()};
  const std::vector<TokenId> tokens = SomeTokens(token_count, shape.vocabulary);
  const std::vector<BlockId> blocks = ScatteredBlocks(24, 32);
  std::vector<std::int32_t> outputs;
  for (int i = 0; i < token_count; ++i) outputs.push_back(i);
  const BatchRow row{0, token_count, 0, blocks};
  const auto ours = (*decoder)->Forward({tokens, {&row, 1}, outputs}).value();
  const std::vector<double> theirs = file.Forward(tokens);
  Outcome outcome;
  outcome.error = 0;
  for (int t = 0; t < token_count; ++t) {
    double difference = 0, largest = 1;
    for (int i = 0; i < shape.vocabulary; ++i) {
      const auto at = static_cast<std::size_t>(t * shape.vocabulary + i);
      difference = std::max(difference, std::isnan(ours[at]) ? 1e9 : std::abs(static_cast<double>(ours[at]) - theirs[at]));
      largest = std::max(largest, std::abs(theirs[at]));
    }
    outcome.error = std::max(outcome.error, difference / largest);
  }
  return outcome;
}

void ExpectClose(const TinyShape& shape, double tolerance = 2e-5,
                 std::optional<kernels::Arithmetic> arithmetic = kernels::Arithmetic::kExact, int threads = 2) {
  const Outcome outcome = RunModel(shape, arithmetic, threads);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_LE(outcome.error, tolerance);
}

TEST(DecoderTest, PlainModel) { ExpectClose({}); }
TEST(DecoderTest, TiedEmbedding) { ExpectClose({.tied = true}); }
TEST(DecoderTest, Biases) { ExpectClose({.biases = true}); }
TEST(DecoderTest, InterleavedRows) { ExpectClose({.biases = true, .interleaved = true}); }
TEST(DecoderTest, PartlyRotatedHeads) {
  ExpectClose({.head_dim = 24, .rotated = 10});
  ExpectClose({.head_dim = 24, .rotated = 10, .biases = true, .interleaved = true});
}
TEST(DecoderTest, OddWidths) {
  // Nothing is a multiple of a panel or a cell.
  ExpectClose({.layers = 2, .hidden = 50, .heads = 3, .kv_heads = 1, .head_dim = 10, .feed_forward = 37, .vocabulary = 33, .biases = true});
  ExpectClose({.layers = 1, .hidden = 72, .heads = 6, .kv_heads = 3, .head_dim = 80, .feed_forward = 130, .vocabulary = 65, .tied = true});
}
TEST(DecoderTest, EveryWeightType) {
  for (const DType type : {DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    ExpectClose({.matrices = type, .tied = true});
  }
}
TEST(DecoderTest, TypesThatDifferWithinAPhase) {
  ExpectClose({.matrices = DType::kQ8_0, .v_matrix = DType::kF32, .up_matrix = DType::kBF16, .mixed = true, .biases = true});
  // Each matrix then has its own arithmetic by default.
  ExpectClose({.matrices = DType::kQ8_0, .v_matrix = DType::kF32, .up_matrix = DType::kBF16, .mixed = true}, 0.1, std::nullopt);
}
TEST(DecoderTest, RoundedArithmeticsAreNear) {
  for (const auto arithmetic : {kernels::Arithmetic::kInt8G32, kernels::Arithmetic::kBf16T, kernels::Arithmetic::kBf16P}) {
    ExpectClose({.matrices = DType::kQ8_0}, 0.1, arithmetic);
    ExpectClose({.matrices = DType::kQ4_1, .tied = true}, 0.1, arithmetic);
  }
}
TEST(DecoderTest, MoreThreadsThanWork) { ExpectClose({}, 2e-5, kernels::Arithmetic::kExact, 64); }
TEST(DecoderTest, OneThread) { ExpectClose({}, 2e-5, kernels::Arithmetic::kExact, 1); }
TEST(DecoderTest, SeveralSplitsOfKeys) {
  const Outcome outcome = RunModel({.layers = 1}, kernels::Arithmetic::kExact, 2, 300);
  EXPECT_LE(outcome.error, 2e-5);
}

TEST(DecoderTest, ArithmeticThatAWeightLacksIsRefusedByName) {
  const Outcome outcome = RunModel({.matrices = DType::kF32}, kernels::Arithmetic::kInt8G32, 1);
  EXPECT_EQ(outcome.status.code(), Code::kInvalidArgument);
  EXPECT_NE(outcome.status.message().find("int8g32"), std::string::npos);
}

TEST(DecoderTest, RoundedKvIsForWhoDoesNotAskForExact) {
  // F16 and F32 models could not have a small cache, or `--exact` would silently not be exact.
  for (const kernels::KvType type : {kernels::KvType::kBf16, kernels::KvType::kInt8, kernels::KvType::kFp8}) {
    const Outcome by_default = RunModel({}, std::nullopt, 2, 40, type);
    EXPECT_TRUE(by_default.status.ok()) << by_default.status.message();
    EXPECT_LE(by_default.error, type == kernels::KvType::kFp8 ? 0.12 : 0.03);  // two to four times the step of 8-bit keys
    EXPECT_EQ(RunModel({}, kernels::Arithmetic::kExact, 2, 40, type).status.code(), Code::kInvalidArgument);
  }
}

TEST(ModelTest, TooBigIsRefusedBeforeReading) {
  const TinyModel file({});
  kernels::ThreadPool pool(1);
  LoadOptions options;
  options.memory_limit = 1000;
  bool progressed = false;
  options.progress = [&](std::uint64_t, std::uint64_t) { progressed = true; };
  const auto model = Model::Load(file, options, pool);
  EXPECT_EQ(model.status().code(), Code::kLimit);
  EXPECT_FALSE(progressed);
}

TEST(ModelTest, ProgressEndsWithAll) {
  const TinyModel file({});
  kernels::ThreadPool pool(2);
  LoadOptions options;
  std::uint64_t last = 0, most = 1;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    most = total;
  };
  ASSERT_TRUE(Model::Load(file, options, pool).ok());
  EXPECT_EQ(last, most);
}

TEST(ModelTest, EstimateIsWhatLoadingTakes) {
  const TinyModel file({.matrices = DType::kQ4_1});
  kernels::ThreadPool pool(1);
  const auto model = Model::Load(file, {}, pool);
  const auto answer = EstimateMemory(file, {.options = {}, .kv_type = {}, .frames = 10, .threads = 1});
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->need.weights_bytes, (*model)->packed_bytes());
  const auto kv = KvStore::Create(file.config(), answer->kv_type, 10);
  ASSERT_TRUE(kv.ok());
  EXPECT_EQ(answer->need.kv_bytes, (*kv)->bytes());
}

}  // namespace
}  // namespace skein::model
