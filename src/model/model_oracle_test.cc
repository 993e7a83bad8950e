// SPDX-License-Identifier: Apache-2.0
//
// If these fail, models of the llama family get wrong logits: compared with numbers of another implementation on tiny
// random models, in both file formats and all weight types. Skipped where that reference data is not at hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "formats/model_file.h"
#include "model/decoder.h"
#include "model/tiny_model_testing.h"

namespace skein::model {
namespace {

std::string OracleFolder() {
  const char* source = std::getenv("SKEIN_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/../shared/oracle/models";
}

boost::json::value ReadJson(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return boost::json::parse(text.str());
}

std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<float> values(static_cast<std::size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

struct Runner {
  kernels::ThreadPool pool{2};
  std::unique_ptr<formats::ModelFile> file;
  std::unique_ptr<Model> model;
  std::unique_ptr<KvStore> kv;
  std::unique_ptr<Decoder> decoder;

  Status Open(const std::string& path, std::optional<kernels::Arithmetic> arithmetic) {
    SKEIN_ASSIGN_OR_RETURN(file, formats::ModelFile::Open(path));
    LoadOptions options;
    options.arithmetic = arithmetic;
    SKEIN_ASSIGN_OR_RETURN(model, Model::Load(*file, options, pool));
    SKEIN_ASSIGN_OR_RETURN(kv, KvStore::Create(model->local(), DefaultKvType(model->arithmetic()), 8));
    SKEIN_ASSIGN_OR_RETURN(decoder, Decoder::Create(*model, *kv, pool, {.tokens = 64, .outputs = 64}));
    return OkStatus();
  }

  // Logits of every position, computed in chunks of 64.
  std::vector<float> Logits(const std::vector<TokenId>& tokens) {
    const std::vector<BlockId> blocks = ScatteredBlocks(16, 32);
    std::vector<float> all;
    for (std::size_t begin = 0; begin < tokens.size(); begin += 64) {
      const std::size_t count = std::min<std::size_t>(64, tokens.size() - begin);
      std::vector<std::int32_t> outputs(count);
      for (std::size_t i = 0; i < count; ++i) outputs[i] = static_cast<std::int32_t>(i);
      const BatchRow row{0, static_cast<std::int32_t>(count), static_cast<std::int32_t>(begin), blocks};
      const auto logits = decoder->Forward({std::span(tokens).subspan(begin, count), {&row, 1}, outputs}).value();
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }
};

// The worst position's max|a - b| / max(1, max|b|).
double RelativeError(std::span<const float> ours, std::span<const float> theirs, std::size_t vocabulary) {
  double worst = 0;
  for (std::size_t at = 0; at < theirs.size(); at += vocabulary) {
    double difference = 0, largest = 1;
    for (std::size_t i = at; i < at + vocabulary; ++i) {
      difference = std::max(difference, std::isnan(ours[i]) ? 1e9 : std::abs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
      largest = std::max(largest, std::abs(static_cast<double>(theirs[i])));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

// Compares all stored sequences of a model; `expected` has "sequences", logits files lie in `folder`.
double WorstError(Runner& runner, const boost::json::object& expected, const std::string& folder) {
  double worst = 0;
  const auto vocabulary = static_cast<std::size_t>(runner.model->config().vocabulary);
  for (const auto& value : expected.at("sequences").as_array()) {
    const boost::json::object& sequence = value.as_object();
    std::vector<TokenId> ids;
    for (const auto& id : sequence.at("tokens").as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
    const auto* first = sequence.if_contains("logits_first_position");
    const std::size_t skip = first == nullptr ? 0 : static_cast<std::size_t>(first->as_int64());
    const std::vector<float> theirs = ReadFloats(folder + "/" + std::string(sequence.at("logits_file").as_string()));
    const std::vector<float> ours = runner.Logits(ids);
    EXPECT_EQ(ours.size(), theirs.size() + skip * vocabulary);
    if (ours.size() != theirs.size() + skip * vocabulary) return 1e9;
    worst = std::max(worst, RelativeError(std::span(ours).subspan(skip * vocabulary), theirs, vocabulary));
  }
  return worst;
}

std::string Named(const testing::TestParamInfo<const char*>& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class FolderTest : public testing::TestWithParam<const char*> {};

TEST_P(FolderTest, ExactArithmeticMatches) {
  const std::string folder = OracleFolder() + "/" + GetParam();
  if (!std::ifstream(folder + "/expected.json")) GTEST_SKIP() << "no " << folder;
  Runner runner;
  const Status opened = runner.Open(folder, kernels::Arithmetic::kExact);
  ASSERT_TRUE(opened.ok()) << opened.message();
  const double error = WorstError(runner, ReadJson(folder + "/expected.json").as_object(), folder);
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_LE(error, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Llama, FolderTest,
                         testing::Values("llama-smol", "llama-plain", "llama-rope-llama3", "llama-rope-linear",
                                         "llama-rope-yarn", "llama-bias"),
                         Named);

class GgufTest : public testing::TestWithParam<const char*> {};

TEST_P(GgufTest, ExactArithmeticMatches) {
  const std::string folder = OracleFolder() + "/gguf";
  if (!std::ifstream(folder + "/expected.json")) GTEST_SKIP() << "no " << folder;
  const boost::json::value expected = ReadJson(folder + "/expected.json");
  const std::string name = std::string(GetParam()) + ".gguf";
  Runner runner;
  const Status opened = runner.Open(folder + "/" + name, kernels::Arithmetic::kExact);
  ASSERT_TRUE(opened.ok()) << opened.message();
  bool found = false;
  for (const auto& entry : expected.as_object().at("files").as_array()) {
    if (entry.as_object().at("model").as_string() != name) continue;
    found = true;
    const double error = WorstError(runner, entry.as_object(), folder);
    RecordProperty("relative_error", std::to_string(error));
    EXPECT_LE(error, 2e-3);
  }
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(Llama, GgufTest,
                         testing::Values("llama-smol-BF16", "llama-rope-llama3-BF16", "llama-256-F32", "llama-256-F16",
                                         "llama-256-BF16", "llama-256-Q4_0", "llama-256-Q4_1", "llama-256-Q8_0",
                                         "llama-256-split-00001-of-00002"),
                         Named);

}  // namespace
}  // namespace skein::model
