// SPDX-License-Identifier: Apache-2.0
//
// The packed cache: what is read is what packing gives, and nothing that may stand in its place does harm.
#include "model/packed_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "model/arch/architecture.h"
#include "model/model.h"
#include "model/tiny_model_testing.h"

namespace skein::model {
namespace {

namespace fs = std::filesystem;

// Several pieces of the file, panels that are not full.
const TinyShape kShape{.hidden = 256, .feed_forward = 352, .vocabulary = 5003, .matrices = DType::kBF16, .seed = 5};

class PackedCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "packed_cache_test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Loads with the cache and holds the bytes against those of packing.
  CacheUse Load(const TinyModel& file) {
    auto packed = Model::Load(file, {}, pool_);
    LoadOptions options;
    options.packed_cache = folder_;
    auto model = Model::Load(file, options, pool_);
    EXPECT_TRUE(packed.ok() && model.ok());
    if (!packed.ok() || !model.ok()) return {};
    const Buffer& wanted = (*packed)->weights().memory;
    const Buffer& found = (*model)->weights().memory;
    EXPECT_EQ(wanted.size(), found.size());
    EXPECT_EQ(std::memcmp(wanted.data(), found.data(), wanted.size()), 0);
    return (*model)->cache_use();
  }

  std::vector<fs::path> Files() const { return {fs::directory_iterator(folder_), fs::directory_iterator()}; }
  std::string TheFile() const {
    EXPECT_EQ(Files().size(), 1u);
    return Files().front().string();
  }
  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  kernels::ThreadPool pool_{2};
  std::string folder_;
};

// The second start would be no faster, or another model.
TEST_F(PackedCacheTest, ReadsWhatItWrote) {
  const TinyModel file(kShape);
  const CacheUse first = Load(file);
  EXPECT_TRUE(first.written && !first.read && first.trouble.empty()) << first.trouble;
  const CacheUse second = Load(file);
  EXPECT_TRUE(second.read && !second.written && second.trouble.empty()) << second.trouble;
}

// A bad disk or an old file would become wrong answers.
TEST_F(PackedCacheTest, DamagedAndForeignFilesAreReplaced) {
  const TinyModel file(kShape);
  Load(file);
  const std::string path = TheFile(), good = ReadFile(path);
  const auto expect_replaced = [&](const char* what, const std::string& bytes) {
    SCOPED_TRACE(what);
    WriteFile(path, bytes);
    const CacheUse use = Load(file);
    EXPECT_TRUE(!use.read && use.written);
    EXPECT_NE(use.trouble, "");
    EXPECT_EQ(use.trouble.find('\n'), std::string::npos);
    EXPECT_TRUE(ReadFile(TheFile()) == good);
  };
  for (const std::size_t place : {std::size_t{0}, std::size_t{8}, std::size_t{17}, std::size_t{24}, std::size_t{40},
                                  std::size_t{4096}, good.size() / 2, good.size() - 1}) {
    std::string bytes = good;
    bytes[place] = static_cast<char>(bytes[place] ^ 0x10);
    expect_replaced("a bit", bytes);
  }
  expect_replaced("nothing", "");
  expect_replaced("short", good.substr(0, good.size() - 4096));
  expect_replaced("long", good + "x");
  TinyShape other_shape = kShape;
  other_shape.seed = 6;
  const TinyModel other(other_shape);
  EXPECT_NE(Load(other).trouble, "");  // the same place, for it has no path either
  EXPECT_NE(Load(file).trouble, "");
  EXPECT_TRUE(Load(file).read);
}

// After an update of the program that packs otherwise, or a model written over without a trace, answers would be noise.
TEST_F(PackedCacheTest, PanelsOfAnotherKindAreNotUsed) {
  const TinyModel file(kShape);
  ModelWeights weights;
  Result<WeightPlan> plan = FindArchitecture(file.config().architecture)->plan_weights(file, WholeShare(file.config()), weights);
  ASSERT_TRUE(plan.ok());
  const kernels::KernelPath path = kernels::AvailablePaths().front();
  ASSERT_TRUE(ChooseArithmetic(std::nullopt, path, *plan).ok());
  const PackedCache cache(folder_, file, *plan, path);
  std::vector<std::byte> bytes(plan->MatrixBytes(), std::byte{1});
  ASSERT_TRUE(cache.Write(pool_, bytes).ok());
  ASSERT_TRUE(cache.Read(pool_, bytes).ok());
  const CacheUse use = Load(file);
  EXPECT_TRUE(!use.read && use.written);
  EXPECT_NE(use.trouble, "");
  EXPECT_TRUE(Load(file).read);
}

// A full disk would end the load, or leave its rest behind.
TEST_F(PackedCacheTest, AFullDiskLeavesNothing) {
  const TinyModel file(kShape);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const CacheUse use = Load(file);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(!use.read && !use.written);
  EXPECT_NE(use.trouble, "");
  EXPECT_TRUE(Files().empty());
  WriteFile(folder_ + "/file", "");
  folder_ += "/file";  // no folder can be made there
  EXPECT_NE(Load(file).trouble, "");
  folder_.resize(folder_.size() - 5);
}

// Damage of one word would pass.
TEST_F(PackedCacheTest, HashesDifferWhereBytesDo) {
  std::vector<std::byte> bytes(199);
  const std::uint64_t zeros = HashBytes(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = std::byte{1};
    EXPECT_NE(HashBytes(bytes), zeros);
    bytes[i] = std::byte{0};
  }
  EXPECT_NE(HashBytes(std::span(bytes).first(198)), zeros);
}

}  // namespace
}  // namespace skein::model
