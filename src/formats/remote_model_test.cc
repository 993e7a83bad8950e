// SPDX-License-Identifier: Apache-2.0
//
// A model over a connection: the same bytes as from its file, and what strangers on either end can do.
#include "formats/remote_model.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "formats/make_model.h"
#include "formats/model_server.h"
#include "formats/model_wire.h"
#include "formats/test_files.h"

namespace skein::formats {
namespace {

using testing::TemporaryFolder;

constexpr std::chrono::milliseconds kPatience{20000};

std::pair<Descriptor, Descriptor> Pair() {
  int ends[2];
  SKEIN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::unique_ptr<ModelFile> Tiny(const TemporaryFolder& folder, DType format) {
  const std::string path = folder / "tiny.gguf";
  SKEIN_CHECK(MakeModel({.shape = "tiny", .format = format, .path = path, .progress = {}}).ok());
  auto opened = ModelFile::Open(path);
  SKEIN_CHECK(opened.ok());
  return std::move(*opened);
}

std::unique_ptr<ModelFile> Over(ModelServer& server) {
  auto [near, far] = Pair();
  server.Add(std::move(far));
  auto remote = OpenRemoteModel(std::move(near), kPatience);
  EXPECT_TRUE(remote.ok()) << remote.status().message();
  return remote.ok() ? std::move(*remote) : nullptr;
}

// A rank of another host would compute with other weights.
TEST(RemoteModel, HasTheBytesOfTheFile) {
  const TemporaryFolder folder;
  const auto file = Tiny(folder, DType::kQ4_1);
  const auto server = ModelServer::Create(*file);
  ASSERT_TRUE(server.ok());
  const auto remote = Over(**server);
  ASSERT_NE(remote, nullptr);
  EXPECT_EQ(remote->config().hidden, file->config().hidden);
  EXPECT_EQ(remote->config().eos, file->config().eos);
  EXPECT_EQ(remote->identity(), file->identity());
  ASSERT_EQ(remote->tensors().size(), file->tensors().size());
  const auto compare = [&](std::size_t first) {
    for (std::size_t i = first; i < file->tensors().size(); i += 3) {
      const TensorInfo &ours = file->tensors()[i], &theirs = remote->tensors()[i];
      ASSERT_EQ(ours.name, theirs.name);
      std::vector<std::byte> wanted(ours.bytes), found(ours.bytes);
      ASSERT_TRUE(file->Read(ours, 0, wanted).ok());
      ASSERT_TRUE(remote->Read(theirs, 0, found).ok());
      EXPECT_EQ(wanted, found) << ours.name;
    }
  };
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < 3; ++i) readers.emplace_back(compare, i);
  for (std::thread& reader : readers) reader.join();
}

// A rank's part of o and down would have other values, or the scale of a row would be another one.
TEST(RemoteModel, RowsHaveTheirPartAndAllScales) {
  for (const DType format : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kBF16, DType::kF32}) {
    const TemporaryFolder folder;
    const auto file = Tiny(folder, format);
    const auto server = ModelServer::Create(*file);
    ASSERT_TRUE(server.ok());
    const auto remote = Over(**server);
    ASSERT_NE(remote, nullptr);
    const TensorInfo *ours = file->Find("layers.0.down"), *theirs = remote->Find("layers.0.down");
    ASSERT_NE(ours, nullptr);
    const std::uint64_t columns = ours->shape[1], row_bytes = *RowBytes(ours->dtype, columns);
    const DTypeInfo& type = InfoOf(ours->dtype);
    const std::uint64_t begin = 40, end = 90, rows = 5;
    std::vector<std::byte> whole(rows * row_bytes), part(rows * row_bytes);
    ASSERT_TRUE(file->Read(*ours, 3 * row_bytes, whole).ok());
    ASSERT_TRUE(remote->ReadRows(*theirs, 3, begin, end, part).ok());
    const std::uint64_t head = ours->dtype == DType::kQ4_1 ? 4 : type.block_elements > 1 ? 2 : 0;
    std::uint64_t sent = 0;
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t block = 0; block < columns / static_cast<std::uint64_t>(type.block_elements); ++block) {
        const std::uint64_t first = block * static_cast<std::uint64_t>(type.block_elements);
        const bool wanted = first < end && first + static_cast<std::uint64_t>(type.block_elements) > begin;
        const std::uint64_t bytes = wanted ? static_cast<std::uint64_t>(type.block_bytes) : head;
        const std::uint64_t at = row * row_bytes + block * static_cast<std::uint64_t>(type.block_bytes);
        EXPECT_EQ(std::memcmp(whole.data() + at, part.data() + at, bytes), 0) << type.name << " row " << row << " block " << block;
        sent += bytes;
      }
    }
    // They are counted just after they have left.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while ((*server)->bytes_sent() != sent && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ((*server)->bytes_sent(), sent) << "more was sent than was needed";
  }
}

// Whoever may ask would read outside of the tensors, or make the supervisor take memory as it likes.
TEST(RemoteModel, AServerGivesBytesOfTensorsOnly) {
  const TemporaryFolder folder;
  const auto file = Tiny(folder, DType::kQ4_0);
  const auto server = ModelServer::Create(*file);
  ASSERT_TRUE(server.ok());
  const std::uint64_t bytes = file->tensors()[0].bytes;
  const auto count = static_cast<std::uint32_t>(file->tensors().size());
  const PieceRequest bad[] = {{count, 0, 0, 0, 1},
                              {0, 0, bytes, 0, 1},
                              {0, 0, ~0ull, 0, 2},
                              {0, 0, 0, 0, ~0ull},
                              {0, 1, ~0ull / 4, 0, 32},
                              {0, ~0u, 0, 0, 32},
                              {0, 1, 0, 32, 32},
                              {0, 1, 0, 0, 1u << 20}};
  for (const PieceRequest& request : bad) {
    auto [near, far] = Pair();
    (*server)->Add(std::move(far));
    const auto frame = wire::Encode(kRequestFrame, request);
    ASSERT_EQ(::send(near.get(), frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
    std::vector<std::byte> head = EncodeHead({file->config(), file->tensors(), file->path(), file->identity()}), came(head.size());
    ASSERT_EQ(::recv(near.get(), came.data(), came.size(), MSG_WAITALL), static_cast<ssize_t>(came.size()));
    std::byte more;
    EXPECT_EQ(::recv(near.get(), &more, 1, 0), 0) << "tensor " << request.tensor << " first " << request.first;
  }
  EXPECT_EQ((*server)->bytes_sent(), 0u);
  EXPECT_NE(Over(**server), nullptr) << "others are served meanwhile";
}

// A head that lies would make a rank read or write where it may not.
TEST(RemoteModel, AHeadIsCheckedLikeAFile) {
  const TemporaryFolder folder;
  const auto file = Tiny(folder, DType::kQ4_0);
  const ModelHead good{file->config(), file->tensors(), file->path(), file->identity()};
  EXPECT_TRUE(DecodeHead(EncodeHead(good)).ok());
  const std::vector<std::function<void(ModelHead&)>> lies = {
      [](ModelHead& head) { head.config.layers = 0; },
      [](ModelHead& head) { head.config.hidden = 1 << 30; },
      [](ModelHead& head) { head.config.kv_heads = head.config.heads + 1; },
      [](ModelHead& head) { head.config.eos = {1 << 25}; },
      [](ModelHead& head) { head.config.rope.dimensions = 1 << 20; },
      [](ModelHead& head) { head.config.rope.frequency_divisors = {0.0f}; },
      [](ModelHead& head) { head.tensors.pop_back(); },
      [](ModelHead& head) { head.tensors[0].shape[0] += 1; },
      [](ModelHead& head) { head.tensors[0].bytes += 1; },
      [](ModelHead& head) { head.tensors[1].dtype = DType::kQ8_0; },
      [](ModelHead& head) { head.tensors.emplace_back().name = "another"; }};
  for (std::size_t i = 0; i < lies.size(); ++i) {
    ModelHead head = good;
    lies[i](head);
    const auto decoded = DecodeHead(EncodeHead(head));
    EXPECT_FALSE(decoded.ok()) << "lie " << i;
  }
  std::mt19937 random(1);
  const std::vector<std::byte> frame = EncodeHead(good);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> broken = frame;
    broken[random() % broken.size()] ^= std::byte{1};
    EXPECT_FALSE(DecodeHead(broken).ok());
    EXPECT_FALSE(DecodeHead(std::span(frame).first(random() % frame.size())).ok());
  }
}

// A supervisor that is gone, or says nothing, would leave a rank waiting.
TEST(RemoteModel, AConnectionThatEndsIsAnError) {
  const TemporaryFolder folder;
  const auto file = Tiny(folder, DType::kQ4_0);
  auto server = ModelServer::Create(*file);
  ASSERT_TRUE(server.ok());
  const auto remote = Over(**server);
  ASSERT_NE(remote, nullptr);
  server->reset();
  std::vector<std::byte> bytes(32);
  const Status read = remote->Read(remote->tensors()[0], 0, bytes);
  EXPECT_EQ(read.code(), Code::kUnavailable);
  EXPECT_NE(read.message().find(remote->tensors()[0].file_name), std::string::npos) << read.message();
  auto [near, far] = Pair();
  EXPECT_EQ(OpenRemoteModel(std::move(near), std::chrono::milliseconds(50)).status().code(), Code::kUnavailable) << "a silent one";
}

}  // namespace
}  // namespace skein::formats
