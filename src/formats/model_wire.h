// SPDX-License-Identifier: Apache-2.0
//
// How a model's bytes reach a process that has no file of it: a connection on which the owner of the file says first what the model is
// (ModelHead), and then answers requests in order, each with a head of fixed size and the bytes. Nothing is trusted on either side: a
// request is only for bytes of a tensor of this file and at most kPieceBytesMax of them, a head is checked like a file's.
//
// A part of a matrix's columns travels alone, but for the heads of blocks: packing looks at the scales of whole rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/wire.h"
#include "formats/model_config.h"
#include "formats/model_file.h"

namespace skein::formats {

struct ModelHead {
  ModelConfig config = {};
  std::vector<TensorInfo> tensors = {};  // without file and offset
  std::string path = {}, identity = {};
};

inline constexpr std::size_t kHeadBytesMax = 64u << 20;
// Of whole rows that one request is about.
inline constexpr std::uint64_t kPieceBytesMax = 8u << 20;

std::vector<std::byte> EncodeHead(const ModelHead& head);
// Errors: kInvalidFile for a head that describes no sound model, as a file's reader would say it.
Result<ModelHead> DecodeHead(std::span<const std::byte> frame);
// How long the frame is that begins so; its first wire::kFrameHeaderBytes are enough. Errors: kInvalidFile.
Result<std::size_t> HeadFrameBytes(std::span<const std::byte> begin);

// Rows [first, first + rows) of a matrix, of each the columns [begin, end); or, with rows = 0, `end` bytes from byte `first`.
struct PieceRequest {
  std::uint32_t tensor = 0;
  std::uint32_t rows = 0;
  std::uint64_t first = 0;
  std::uint64_t begin = 0, end = 0;
};
struct PieceReply {
  std::uint8_t code = 0;  // of a Status; not ok: the bytes are its message
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
};
inline constexpr std::size_t kMessageBytesMax = 4096;

template <class Wire, wire::Same<PieceRequest> T>
void Fields(Wire& wire, T& value) {
  wire(value.tensor, value.rows, value.first, value.begin, value.end);
}
template <class Wire, wire::Same<PieceReply> T>
void Fields(Wire& wire, T& value) {
  wire(value.code, value.bytes, value.checksum);
}

inline constexpr wire::FrameKind kHeadFrame{0x464D4B53, 1, 1};  // "SKMF"
inline constexpr wire::FrameKind kRequestFrame{0x464D4B53, 1, 2};
inline constexpr wire::FrameKind kReplyFrame{0x464D4B53, 1, 3};
inline constexpr std::size_t kFrameExtraBytes = wire::kFrameHeaderBytes + sizeof(std::uint32_t);
inline constexpr std::size_t kRequestFrameBytes = kFrameExtraBytes + 4 + 4 + 8 + 8 + 8;
inline constexpr std::size_t kReplyFrameBytes = kFrameExtraBytes + 1 + 8 + 4;

// Which bytes of a row of a tensor travel for a part of its columns: runs in order.
struct RowRuns {
  std::uint64_t block_bytes = 1;
  std::uint64_t head_bytes = 0;       // of each block outside the part
  std::uint64_t row_bytes = 0;
  std::uint64_t begin = 0, end = 0;   // of the part, whole blocks

  // Calls take(offset, bytes) for each run of one row.
  template <typename Take>
  void ForEach(Take take) const {
    if (head_bytes > 0) {
      for (std::uint64_t at = 0; at < begin; at += block_bytes) take(at, head_bytes);
    }
    take(begin, end - begin);
    if (head_bytes > 0) {
      for (std::uint64_t at = end; at < row_bytes; at += block_bytes) take(at, head_bytes);
    }
  }
  std::uint64_t bytes() const { return end - begin + head_bytes * ((begin + row_bytes - end) / block_bytes); }
};
// Nothing for columns that are none of this tensor's.
std::optional<RowRuns> RunsOf(const TensorInfo& tensor, std::uint64_t begin_column, std::uint64_t end_column);

// Errors: kInvalidArgument for a request that is not for bytes of `tensor`, or for too many.
Status CheckRequest(const TensorInfo& tensor, const PieceRequest& request);

}  // namespace skein::formats
