// SPDX-License-Identifier: Apache-2.0
//
// The safetensors container against files with one thing wrong each.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include "formats/test_files.h"

namespace skein::formats {
namespace {

using testing::MemoryFile;
using testing::Raw;
using testing::TinyHf;

Result<std::vector<FoundTensor>> Read(const std::string& bytes) {
  const MemoryFile file(bytes);
  return ReadSafetensors(file.descriptor(), bytes.size(), 0);
}

void ExpectRefused(const std::string& bytes, std::string_view word) {
  const auto found = Read(bytes);
  ASSERT_FALSE(found.ok()) << bytes.substr(8, 100);
  EXPECT_EQ(found.status().code(), Code::kInvalidFile);
  const std::string told = found.status().message() + " " + found.status().field();
  EXPECT_NE(told.find(word), std::string::npos) << told << " does not name " << word;
}

std::string File(const std::string& header, std::size_t data_bytes) {
  return TinyHf::WithLength(header) + std::string(data_bytes, 'd');
}

// Two tensors, the second described by `entry`.
std::string Two(const std::string& entry, std::size_t data_bytes = 24) {
  return File(R"({"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, "b": )" + entry + "}", data_bytes);
}

TEST(Safetensors, ReadsAValidFile) {
  const auto found = Read(File(R"({"__metadata__": {"format": "pt"}, "b": {"dtype": "I64", "shape": [1],
    "data_offsets": [16, 24]}, "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "none": {"dtype": "F16", "shape": [0, 9], "data_offsets": [24, 24]},
    "scalar": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}   )",
                               26));
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->size(), 4u);
  EXPECT_EQ((*found)[0].info.file_name, "b");
  EXPECT_EQ((*found)[0].odd_format, "I64");
  EXPECT_EQ((*found)[1].info.dtype, DType::kF32);
  EXPECT_EQ((*found)[0].info.offset - (*found)[1].info.offset, 16u);
}

TEST(Safetensors, RefusesBrokenHeaders) {  // A header's length would be allocated, its nesting would use up the stack.
  const std::string good = Two(R"({"dtype": "F16", "shape": [4], "data_offsets": [16, 24]})");
  ASSERT_TRUE(Read(good).ok());
  for (std::size_t size = 0; size < good.size(); ++size) ExpectRefused(good.substr(0, size), "");
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{101} << 20, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    ExpectRefused(Raw(size) + good.substr(8), "header");
  }
  ExpectRefused(File("[1, 2]", 0), "header");
  ExpectRefused(File("{\"a\": ", 0), "header");
  ExpectRefused(File("{} x", 0), "header");
  ExpectRefused(File("{\"\xff\": 1}", 0), "header");
  ExpectRefused(File("{\"__metadata__\": " + std::string(10'000, '[') + std::string(10'000, ']') + "}", 0), "header");
  ExpectRefused(File(R"({"__metadata__": 5})", 0), "__metadata__");
  ExpectRefused(File(R"({"__metadata__": {"a": 5}})", 0), "__metadata__");
  ExpectRefused(good + "d", "bytes");
  ExpectRefused(File(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                         "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
                     4),
                "duplicate");
}

TEST(Safetensors, RefusesBrokenEntries) {  // Weights would be read from beyond the file, or from another tensor.
  const auto expect = [](const std::string& fields, std::string_view word) {
    ExpectRefused(Two("{" + fields + "}"), word);
  };
  for (const char* dtype : {"\"F33\"", "\"\"", "5", "null", "\"f16\""}) {
    expect(fmt::format(R"("dtype": {}, "shape": [4], "data_offsets": [16, 24])", dtype), "dtype");
  }
  for (const char* shape : {"[5]", "[-4]", "[4.0]", "[\"4\"]", "[1099511627776, 1099511627776]", "null", "[0]", "4",
                            "[9223372036854775808, 2]", "[1,1,1,1,1,1,1,1,4]"}) {
    expect(fmt::format(R"("dtype": "F16", "shape": {}, "data_offsets": [16, 24])", shape), "shape");
  }
  for (const char* offsets :
       {"[16, 28]", "[20, 24]", "[24, 16]", "[-4, 24]", "[16]", "[16, 24, 24]", "[\"16\", \"24\"]", "null",
        "[16.0, 24.0]", "[4611686018427387904, 4611686018427387912]", "[18446744073709551612, 4]"}) {
    expect(fmt::format(R"("dtype": "F16", "shape": [4], "data_offsets": {})", offsets), "data_offsets");
  }
  expect(R"("dtype": "F16", "shape": [4], "data_offsets": [8, 16])", "overlap");
  expect(R"("dtype": "F16", "data_offsets": [16, 24])", "shape");
  expect(R"("dtype": "F16", "shape": [4], "data_offsets": [16, 24], "stride": 2)", "stride");
  ExpectRefused(Two("5"), "b");
  ExpectRefused(Two(R"({"dtype": "F16", "shape": [4], "data_offsets": [20, 28]})", 28), "hole");
}

}  // namespace
}  // namespace skein::formats
