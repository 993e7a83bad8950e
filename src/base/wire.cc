// SPDX-License-Identifier: Apache-2.0
//
// Frames and their checksum. CRC-32C is computed with eight tables, eight bytes at a time.
#include "base/wire.h"

#include <array>

#include <fmt/format.h>

namespace skein::wire {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[j][b]: what byte b does to the checksum when j bytes follow it.
constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t value = b;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
    tables[0][b] = value;
  }
  for (std::size_t j = 1; j < 8; ++j) {
    for (std::size_t b = 0; b < 256; ++b) {
      tables[j][b] = (tables[j - 1][b] >> 8) ^ tables[0][tables[j - 1][b] & 255];
    }
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

struct Header {
  FrameKind kind;
  std::uint64_t length = 0;
};

Result<Header> ReadHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeaderBytes + sizeof(std::uint32_t)) {
    return InvalidFile(fmt::format("a message has {} bytes, fewer than a frame's {}", bytes.size(),
                                   kFrameHeaderBytes + sizeof(std::uint32_t)));
  }
  Header header;
  Reader reader(bytes.first(kFrameHeaderBytes));
  reader(header.kind.magic, header.kind.version, header.kind.kind, header.length);
  return header;
}

}  // namespace

std::uint32_t Crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0u;
  while (bytes.size() >= 8) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, bytes.data(), 4);
    std::memcpy(&high, bytes.data() + 4, 4);
    low ^= crc;
    crc = kTables[7][low & 255] ^ kTables[6][(low >> 8) & 255] ^ kTables[5][(low >> 16) & 255] ^ kTables[4][low >> 24] ^
          kTables[3][high & 255] ^ kTables[2][(high >> 8) & 255] ^ kTables[1][(high >> 16) & 255] ^
          kTables[0][high >> 24];
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 255];
  return ~crc;
}

Status Reader::Finish() const {
  if (error_ != nullptr) return InvalidFile(error_);
  if (!rest_.empty()) return InvalidFile(fmt::format("a message has {} bytes too many", rest_.size()));
  return OkStatus();
}

std::vector<std::byte> MakeFrame(FrameKind kind, std::span<const std::byte> body) {
  Writer header;
  header(kind.magic, kind.version, kind.kind, static_cast<std::uint64_t>(body.size()));
  std::vector<std::byte> frame;
  frame.reserve(kFrameHeaderBytes + body.size() + sizeof(std::uint32_t));
  frame.insert(frame.end(), header.bytes().begin(), header.bytes().end());
  frame.insert(frame.end(), body.begin(), body.end());
  Writer check;
  check(Crc32c(frame));
  frame.insert(frame.end(), check.bytes().begin(), check.bytes().end());
  return frame;
}

Result<FrameKind> PeekFrame(std::span<const std::byte> bytes) {
  SKEIN_ASSIGN_OR_RETURN(const Header header, ReadHeader(bytes));
  return header.kind;
}

Result<std::span<const std::byte>> OpenFrame(FrameKind kind, std::span<const std::byte> bytes) {
  SKEIN_ASSIGN_OR_RETURN(const Header header, ReadHeader(bytes));
  if (header.kind.magic != kind.magic || header.kind.kind != kind.kind) return InvalidFile("a message of another kind");
  if (header.kind.version != kind.version) {
    return InvalidFile(fmt::format("a message of version {}, expected version {}: both ends must be of one build",
                                   header.kind.version, kind.version));
  }
  const std::size_t body_bytes = bytes.size() - kFrameHeaderBytes - sizeof(std::uint32_t);
  if (header.length != body_bytes) {
    return InvalidFile(fmt::format("a message says it has {} bytes and has {}", header.length, body_bytes));
  }
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + kFrameHeaderBytes + body_bytes, sizeof(checksum));
  if (checksum != Crc32c(bytes.first(kFrameHeaderBytes + body_bytes))) {
    return InvalidFile("a message's checksum is wrong");
  }
  return bytes.subspan(kFrameHeaderBytes, body_bytes);
}

}  // namespace skein::wire
