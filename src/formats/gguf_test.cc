// SPDX-License-Identifier: Apache-2.0
//
// The GGUF container against valid files and files with one field wrong each. What such a file could do otherwise:
// take all memory, read beyond its end, or run for minutes.
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "formats/gguf_writer.h"
#include "formats/open_file.h"
#include "formats/test_files.h"

namespace skein::formats {
namespace {

using testing::MemoryFile;
using testing::Raw;
using testing::RawGguf;
using testing::RawText;
using testing::TemporaryFolder;

Result<Gguf> Parse(const std::string& bytes) {
  const MemoryFile file(bytes);
  return Gguf::Parse(file.descriptor(), bytes.size());
}

// Refused, with `word` in the message or the field.
void ExpectRefused(const std::string& bytes, std::string_view word) {
  const Result<Gguf> parsed = Parse(bytes);
  ASSERT_FALSE(parsed.ok()) << word;
  EXPECT_EQ(parsed.status().code(), Code::kInvalidFile);
  const std::string told = parsed.status().message() + " " + parsed.status().field();
  EXPECT_NE(told.find(word), std::string::npos) << told << " does not name " << word;
  EXPECT_EQ(told.find('\n'), std::string::npos);
  EXPECT_LT(told.size(), 500u);
}

RawGguf Small() {
  RawGguf file;
  file.Set("general.architecture", "llama");
  file.Set("some.number", 7u);
  file.tensors = {{"one", {32, 2}, 2, 36}, {"two", {8}, 0, 32}};
  return file;
}

TEST(Gguf, ReadsEveryTypeOfValue) {  // A type read wrongly would shift everything behind it.
  RawGguf file = Small();
  file.Set("u8", GgufType::kUint8, Raw(std::uint8_t{200}));
  file.Set("i8", GgufType::kInt8, Raw(std::int8_t{-5}));
  file.Set("u16", GgufType::kUint16, Raw(std::uint16_t{60000}));
  file.Set("i16", GgufType::kInt16, Raw(std::int16_t{-600}));
  file.Set("i32", GgufType::kInt32, Raw(std::int32_t{-70000}));
  file.Set("u64", GgufType::kUint64, Raw(std::uint64_t{1} << 40));
  file.Set("i64", GgufType::kInt64, Raw(-(std::int64_t{1} << 40)));
  file.Set("f32", 1.5f);
  file.Set("f64", GgufType::kFloat64, Raw(2.5));
  file.Set("yes", GgufType::kBool, Raw(std::uint8_t{1}));
  file.Set("texts", std::vector<std::string>{"a", "", "ccc"});
  file.SetNumbers<float>("floats", GgufType::kFloat32, {1, 2});
  file.SetNumbers<std::int16_t>("shorts", GgufType::kInt16, std::vector<std::int16_t>(10'000, -3));
  file.Set("nested", GgufType::kArray,
           Raw(9u) + Raw(std::uint64_t{1}) + Raw(8u) + Raw(std::uint64_t{2}) + RawText("x") + RawText("yy"));
  const Result<Gguf> parsed = Parse(file.Bytes());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->Integer("u8", 0, 255).value(), 200);
  EXPECT_EQ(parsed->Integer("i8", -128, 127).value(), -5);
  EXPECT_EQ(parsed->Integer("u16", 0, 65535).value(), 60000);
  EXPECT_EQ(parsed->Integer("i16", -1000, 0).value(), -600);
  EXPECT_EQ(parsed->Integer("i32", -100000, 0).value(), -70000);
  EXPECT_EQ(parsed->Integer("u64", 0, std::int64_t{1} << 41).value(), std::int64_t{1} << 40);
  EXPECT_EQ(parsed->Integer("i64", -(std::int64_t{1} << 41), 0).value(), -(std::int64_t{1} << 40));
  EXPECT_EQ(parsed->Real("f32", 0).value(), 1.5);
  EXPECT_EQ(parsed->Real("f64", 0).value(), 2.5);
  EXPECT_TRUE(parsed->Boolean("yes", false).value());
  EXPECT_EQ(parsed->Strings("texts").value()->at(2), "ccc");
  EXPECT_EQ(parsed->Reals("floats").value()->at(1), 2.0f);
  EXPECT_EQ(parsed->Integers("shorts").value()->size(), 10'000u);
  EXPECT_EQ(parsed->Integers("shorts").value()->back(), -3);
  EXPECT_NE(parsed->Find("nested"), nullptr);
  EXPECT_EQ(parsed->Text("general.architecture").value(), "llama");
  EXPECT_EQ(parsed->tensors()[1].name, "two");
  EXPECT_EQ(parsed->tensors()[1].bytes, 32u);
  EXPECT_EQ(parsed->tensors()[1].offset - parsed->tensors()[0].offset, 64u);
}

TEST(Gguf, LookUpsNameTheKeyThatIsWrong) {  // A user could not tell what to repair.
  const Result<Gguf> parsed = Parse(Small().Bytes());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->Integer("some.number", 0, 3).status().field(), "some.number");
  EXPECT_EQ(parsed->Integer("absent", 0, 3).status().field(), "absent");
  EXPECT_EQ(parsed->Integer("absent", 0, 3, 2).value(), 2);
  EXPECT_FALSE(parsed->Integer("general.architecture", 0, 3).ok());
  EXPECT_FALSE(parsed->Text("some.number").ok());
  EXPECT_FALSE(parsed->Boolean("some.number", false).ok());
  EXPECT_FALSE(parsed->Real("some.number", 1).ok());
  EXPECT_FALSE(parsed->Strings("some.number").ok());
  EXPECT_EQ(parsed->Strings("absent").value(), nullptr);
}

TEST(Gguf, RefusesBrokenHeaders) {  // A count that lies would be allocated.
  const auto with = [](const auto& change) {
    RawGguf file = Small();
    change(file);
    return file.Bytes();
  };
  ExpectRefused(with([](RawGguf& f) { f.magic = "GGUX"; }), "magic");
  ExpectRefused("hello", "magic");
  ExpectRefused("", "magic");
  for (const std::uint32_t version : {0u, 1u, 4u, 0x03000000u, 0xffffffffu}) {
    ExpectRefused(with([&](RawGguf& f) { f.version = version; }), "version");
  }
  for (const std::uint64_t count :
       {std::uint64_t{3}, std::uint64_t{1} << 31, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    ExpectRefused(with([&](RawGguf& f) { f.tensor_count = count; }), "tensor");
    ExpectRefused(with([&](RawGguf& f) { f.key_count = count; }), "metadata");
  }
}

TEST(Gguf, RefusesBrokenKeys) {  // Each length would be believed, or one of two values taken by chance.
  const auto with = [](RawGguf::Key key) {
    RawGguf file = Small();
    file.keys.push_back(std::move(key));
    return file.Bytes();
  };
  ExpectRefused(with({"", 4, Raw(1u)}), "key");
  ExpectRefused(with({std::string(70'000, 'k'), 4, Raw(1u)}), "key");
  ExpectRefused(with({"some.number", 4, Raw(1u)}), "some.number");
  ExpectRefused(with({"x.odd", 13, Raw(1u)}), "x.odd");
  ExpectRefused(with({"x.odd", ~0u, Raw(1u)}), "x.odd");
  ExpectRefused(with({"x.bool", 7, Raw(std::uint8_t{2})}), "x.bool");
  ExpectRefused(with({"x.text", 8, Raw(std::uint64_t{1} << 40)}), "x.text");
  ExpectRefused(with({"x.text", 8, Raw(~std::uint64_t{0})}), "x.text");
  ExpectRefused(with({"x.many", 9, Raw(8u) + Raw(std::uint64_t{1} << 40)}), "x.many");
  ExpectRefused(with({"x.many", 9, Raw(10u) + Raw(std::uint64_t{1} << 61)}), "x.many");
  ExpectRefused(with({"x.type", 9, Raw(99u) + Raw(std::uint64_t{1}) + Raw(1u)}), "x.type");
  std::string deep;
  for (int level = 0; level < 5000; ++level) deep += Raw(9u) + Raw(std::uint64_t{1});
  ExpectRefused(with({"x.deep", 9, deep + Raw(9u) + Raw(std::uint64_t{1} << 40)}), "x.deep");
}

TEST(Gguf, RefusesBrokenTensors) {  // Weights would be read from beyond the file, or from another tensor.
  const auto with = [](const auto& change) {
    RawGguf file = Small();
    change(file.tensors[1]);
    return file.Bytes();
  };
  using Tensor = RawGguf::Tensor;
  for (const std::uint32_t count : {0u, 5u, ~0u}) {
    ExpectRefused(with([&](Tensor& t) { t.dimension_count = count; }), "two");
  }
  ExpectRefused(with([](Tensor& t) { t.dimensions = {0}; }), "two");
  ExpectRefused(with([](Tensor& t) { t.dimensions = {~std::uint64_t{0}}; }), "two");
  ExpectRefused(with([](Tensor& t) { t.dimensions = {std::uint64_t{1} << 32, std::uint64_t{1} << 32}; }), "two");
  ExpectRefused(with([](Tensor& t) { t.dimensions = {9}; }), "two");
  ExpectRefused(with([](Tensor& t) { t.format = 2; }), "two");
  ExpectRefused(with([](Tensor& t) { t.format = 12; }), "Q4_K");
  ExpectRefused(with([](Tensor& t) { t.format = 99; }), "99");
  for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{31}}) {
    ExpectRefused(with([&](Tensor& t) { t.offset = offset; }), "offset");
  }
  ExpectRefused(with([](Tensor& t) { t.offset = 32; }), "overlap");
  ExpectRefused(with([](Tensor& t) { t.name = "one"; }), "duplicate");
  ExpectRefused(with([](Tensor& t) { t.name = ""; }), "name");
  ExpectRefused(with([](Tensor& t) { t.name = std::string(70'000, 'n'); }), "name");
}

TEST(Gguf, RefusesBrokenAlignment) {  // A multiple of zero never ends; another one moves every tensor.
  for (const std::uint32_t alignment : {0u, 3u, 4u, 12u, 0x80000001u, 0x80000000u, 0xffffffffu}) {
    RawGguf file = Small();
    file.Set("general.alignment", alignment);
    ExpectRefused(file.Bytes(), "alignment");
  }
  RawGguf file = Small();
  file.Set("general.alignment", "32");
  ExpectRefused(file.Bytes(), "alignment");
  file.Set("general.alignment", GgufType::kBool, Raw(std::uint8_t{1}));
  ExpectRefused(file.Bytes(), "alignment");
  file.Set("general.alignment", 64u);
  EXPECT_TRUE(Parse(file.Bytes(/*alignment=*/64)).ok());
}

TEST(Gguf, RefusesEveryTruncation) {  // A download that broke off is the commonest broken file.
  const std::string whole = Small().Bytes();
  ASSERT_TRUE(Parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) ExpectRefused(whole.substr(0, size), "");
}

TEST(Gguf, SurvivesEveryChangedByte) {  // Whatever a byte becomes, the answer is a file or an error, quickly.
  const std::string whole = Small().Bytes();
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[place] = value;
      const Result<Gguf> parsed = Parse(changed);
      EXPECT_TRUE(parsed.ok() || parsed.status().code() == Code::kInvalidFile);
    }
  }
}

TEST(GgufWriter, WritesWhatTheReaderReads) {  // make-model's files would not load.
  TemporaryFolder folder;
  GgufWriter writer;
  writer.AddText("general.architecture", "llama");
  writer.AddBool("flag", true);
  writer.AddFloat32("real", 0.5f);
  writer.AddTexts("texts", std::vector<std::string>{"x", "y"});
  writer.AddInt32s("numbers", std::vector<std::int32_t>{-1, 2});
  writer.AddFloat32s("reals", std::vector<float>{0.25f});
  writer.AddTensor("a", {32, 3}, DType::kQ4_1);
  writer.AddTensor("b", {5}, DType::kF16);
  const std::string path = folder / "written.gguf";
  ASSERT_TRUE(writer.Begin(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  const std::vector<std::byte> a(60, std::byte{1});
  ASSERT_TRUE(writer.Write(std::span(a).first(11)).ok());
  ASSERT_TRUE(writer.Write(std::span(a).subspan(11)).ok());
  ASSERT_TRUE(writer.Write(std::span(a).first(10)).ok());
  const std::uint64_t expected = writer.FileBytes();
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(std::filesystem::file_size(path), expected);
  const Result<OpenFile> file = OpenFile::Open(path);
  const Result<Gguf> parsed = Gguf::Parse(file->descriptor(), file->size());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE(parsed->Boolean("flag", false).value());
  EXPECT_EQ(parsed->Integers("numbers").value()->at(0), -1);
  EXPECT_EQ(parsed->Reals("reals").value()->at(0), 0.25f);
  EXPECT_EQ(parsed->tensors()[0].dtype, DType::kQ4_1);
  EXPECT_EQ(parsed->tensors()[0].bytes, 60u);
  EXPECT_EQ(parsed->tensors()[1].dtype, DType::kF16);
}

TEST(GgufWriter, LeavesNothingWhenGivenUp) {  // Half a model under a good name would be loaded by the next command.
  TemporaryFolder folder;
  {
    GgufWriter writer;
    writer.AddTensor("a", {32}, DType::kF32);
    ASSERT_TRUE(writer.Begin(folder / "given_up.gguf").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace skein::formats
