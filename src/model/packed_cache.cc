// SPDX-License-Identifier: Apache-2.0
#include "model/packed_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/output_file.h"
#include "formats/open_file.h"

namespace skein::model {
namespace {

constexpr std::uint64_t kMagic = 0x444b4341504e4b53;  // "SKNPACKD"
constexpr std::uint64_t kPieceBytes = 512 << 10;  // read and hashed while it is in second-level cache
constexpr std::uint64_t kPage = 4096;

// What stands before the matrices.
std::vector<std::uint64_t> HeaderOf(std::uint64_t key, std::uint64_t bytes, std::span<const std::uint64_t> checksums) {
  std::vector<std::uint64_t> header{kMagic, PackedCache::kVersion, key, bytes, checksums.size()};
  header.insert(header.end(), checksums.begin(), checksums.end());
  header.push_back(HashBytes(std::as_bytes(std::span(header))));
  return header;
}

std::uint64_t PiecesOf(std::uint64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }
std::uint64_t HeaderBytes(std::uint64_t pieces) { return (pieces + 6) * sizeof(std::uint64_t); }
std::uint64_t MatricesBegin(std::uint64_t pieces) { return (HeaderBytes(pieces) + kPage - 1) / kPage * kPage; }

// Calls take(piece, begin, count) for the pieces of `bytes` bytes, on all workers.
template <typename Take>
void ForEachPiece(kernels::ThreadPool& pool, std::uint64_t bytes, Take take) {
  std::atomic<std::uint64_t> next{0};
  pool.Run([&](kernels::Worker&) {
    for (std::uint64_t piece = next.fetch_add(1); piece * kPieceBytes < bytes; piece = next.fetch_add(1)) {
      const std::uint64_t begin = piece * kPieceBytes;
      take(piece, begin, std::min(kPieceBytes, bytes - begin));
    }
  });
}

std::uint64_t KeyOf(const formats::ModelFile& file, const WeightPlan& plan, kernels::KernelPath path) {
  std::string facts = fmt::format("{}|{}|{}", file.identity(), NameOf(plan.arithmetic), NameOf(path));
  for (const MatrixPlan& matrix : plan.matrices) {
    facts += fmt::format("|{} {} {} {}", matrix.name, NameOf(matrix.format), NameOf(matrix.arithmetic), matrix.rows.outputs());
    for (const RowSource& source : matrix.rows.sources) facts += fmt::format(" {}", source.first_row);
    for (const kernels::Cells& slice : matrix.slices) {
      facts += fmt::format(" {}/{}", slice.first_column, slice.k);
      for (const kernels::Cell& cell : slice.cells) facts += fmt::format(" {}+{}", cell.begin, cell.count);
    }
  }
  return HashBytes(std::as_bytes(std::span(facts)));
}

}  // namespace

std::uint64_t HashBytes(std::span<const std::byte> bytes) {
  constexpr std::size_t kLanes = 8;
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto take = [](std::uint64_t lane, std::uint64_t word) {
    const std::uint64_t product = (lane ^ word) * kOdd;
    return product ^ (product >> 29);
  };
  std::size_t done = 0;
  for (; done + sizeof lanes <= bytes.size(); done += sizeof lanes) {
    std::uint64_t words[kLanes];
    std::memcpy(words, bytes.data() + done, sizeof words);
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = take(lanes[i], words[i]);
  }
  for (std::size_t lane = 0; done < bytes.size(); done += sizeof(std::uint64_t), ++lane) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + done, std::min(bytes.size() - done, sizeof word));
    lanes[lane] = take(lanes[lane], word);
  }
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t lane : lanes) hash = take(hash, lane);
  return hash;
}

PackedCache::PackedCache(const std::string& folder, const formats::ModelFile& file, const WeightPlan& plan,
                         kernels::KernelPath path) {
  key_ = KeyOf(file, plan, path);
  // The name does not depend on what may change, so that a cache that has become useless is replaced.
  const std::string place = fmt::format("{}|{}|{}", file.path(), NameOf(plan.arithmetic), NameOf(path));
  path_ = fmt::format("{}/{:016x}.packed", folder, HashBytes(std::as_bytes(std::span(place))));
}

Status PackedCache::Read(kernels::ThreadPool& pool, std::span<std::byte> matrices) const {
  SKEIN_ASSIGN_OR_RETURN(const formats::PathKind kind, formats::KindOf(path_));
  if (kind == formats::PathKind::kNothing) return MissingError("nothing there yet");
  SKEIN_ASSIGN_OR_RETURN(const formats::OpenFile file, formats::OpenFile::Open(path_));
  const std::uint64_t pieces = PiecesOf(matrices.size()), begin = MatricesBegin(pieces);
  std::vector<std::uint64_t> header(pieces + 6);
  if (file.size() != begin + matrices.size()) {
    return InvalidFile(fmt::format("{} bytes expected, {} found", begin + matrices.size(), file.size()));
  }
  SKEIN_RETURN_IF_ERROR(formats::ReadAt(file.descriptor(), 0, std::as_writable_bytes(std::span(header))));
  const std::span<const std::uint64_t> checksums = std::span(header).subspan(5, pieces);
  if (header[0] != kMagic || header[1] != kVersion) return InvalidFile("it is of another version");
  if (header[2] != key_) return InvalidFile("it is of another model, arithmetic or kernel path");
  if (header != HeaderOf(key_, matrices.size(), checksums)) return InvalidFile("its header is damaged");
  std::atomic<bool> damaged{false};
  ForEachPiece(pool, matrices.size(), [&](std::uint64_t piece, std::uint64_t offset, std::uint64_t count) {
    const std::span<std::byte> into = matrices.subspan(offset, count);
    if (!formats::ReadAt(file.descriptor(), begin + offset, into).ok() || HashBytes(into) != checksums[piece]) {
      damaged.store(true, std::memory_order_relaxed);
    }
  });
  if (damaged.load()) return InvalidFile("a checksum does not fit");
  return OkStatus();
}

Status PackedCache::Write(kernels::ThreadPool& pool, std::span<const std::byte> matrices) const {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);  // Create says what is wrong
  const std::uint64_t pieces = PiecesOf(matrices.size());
  std::vector<std::uint64_t> checksums(pieces);
  ForEachPiece(pool, matrices.size(), [&](std::uint64_t piece, std::uint64_t offset, std::uint64_t count) {
    checksums[piece] = HashBytes(matrices.subspan(offset, count));
  });
  const std::vector<std::uint64_t> header = HeaderOf(key_, matrices.size(), checksums);
  SKEIN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path_));
  SKEIN_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(header))));
  const std::vector<std::byte> gap(MatricesBegin(pieces) - HeaderBytes(pieces));
  SKEIN_RETURN_IF_ERROR(file.Write(gap));
  SKEIN_RETURN_IF_ERROR(file.Write(matrices));
  return file.Commit();
}

}  // namespace skein::model
