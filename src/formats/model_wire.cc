// SPDX-License-Identifier: Apache-2.0
#include "formats/model_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "formats/weight_table.h"

namespace skein::formats {
namespace {

// As the readers of files have them: products of three fit 64 bits.
constexpr int kLayersMax = 1 << 14;
constexpr int kWidthMax = 1 << 20;
constexpr int kHeadsMax = 1 << 14;
constexpr int kContextMax = 1 << 30;
constexpr int kVocabularyMax = 1 << 24;

Status CheckCount(const char* name, int value, int maximum) {
  if (value >= 1 && value <= maximum) return OkStatus();
  return InvalidFile(fmt::format("the model that came has {} = {}, expected 1 to {}", name, value, maximum), name);
}

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }

Status CheckRope(const RopeConfig& rope, int head_dim) {
  const bool sound = rope.dimensions >= 2 && rope.dimensions <= head_dim && rope.dimensions % 2 == 0 && IsPositive(rope.base) &&
                     IsPositive(rope.factor) && rope.original_context >= 0 && rope.original_context <= kContextMax &&
                     std::isfinite(rope.low_frequency_factor) && std::isfinite(rope.high_frequency_factor) &&
                     std::isfinite(rope.attention_factor) && std::isfinite(rope.beta_fast) && std::isfinite(rope.beta_slow) &&
                     (rope.frequency_divisors.empty() || rope.frequency_divisors.size() == static_cast<std::size_t>(rope.dimensions / 2)) &&
                     std::all_of(rope.frequency_divisors.begin(), rope.frequency_divisors.end(), [](float divisor) { return IsPositive(divisor); });
  return sound ? OkStatus() : InvalidFile("the model that came has rotary settings that no file may have", "rope");
}

Status CheckConfig(const ModelConfig& config) {
  SKEIN_RETURN_IF_ERROR(CheckCount("layers", config.layers, kLayersMax));
  SKEIN_RETURN_IF_ERROR(CheckCount("hidden", config.hidden, kWidthMax));
  SKEIN_RETURN_IF_ERROR(CheckCount("heads", config.heads, kHeadsMax));
  SKEIN_RETURN_IF_ERROR(CheckCount("kv_heads", config.kv_heads, config.heads));
  SKEIN_RETURN_IF_ERROR(CheckCount("head_dim", config.head_dim, kHeadsMax));
  SKEIN_RETURN_IF_ERROR(CheckCount("feed_forward", config.feed_forward, kWidthMax));
  SKEIN_RETURN_IF_ERROR(CheckCount("vocabulary", config.vocabulary, kVocabularyMax));
  SKEIN_RETURN_IF_ERROR(CheckCount("context", config.context, kContextMax));
  if (config.heads % config.kv_heads != 0) return InvalidFile("the model that came has heads that are no multiple of kv_heads", "kv_heads");
  if (!IsPositive(config.norm_epsilon)) return InvalidFile("the model that came has an epsilon that is not positive", "norm_epsilon");
  const auto known = [&](TokenId token) { return token >= -1 && token < config.vocabulary; };
  if (!known(config.bos) || !std::all_of(config.eos.begin(), config.eos.end(), known)) {
    return InvalidFile("the model that came has special tokens outside of its vocabulary", "eos");
  }
  return CheckRope(config.rope, config.head_dim);
}

// All tensors that the configuration wants and no other, each of the size that its shape says.
Status CheckTensors(const ModelConfig& config, const std::vector<TensorInfo>& tensors) {
  std::vector<FoundTensor> found;
  for (const TensorInfo& tensor : tensors) {
    found.push_back({tensor, {}});
    found.back().info.file_name = tensor.name;
  }
  SKEIN_RETURN_IF_ERROR(PickTensors(config, WeightNaming::kOurs, found).status());
  for (const TensorInfo& tensor : tensors) {  // of one or two sides now
    const std::optional<std::uint64_t> row = RowBytes(tensor.dtype, tensor.shape.back());
    const std::uint64_t rows = tensor.shape.size() > 1 ? tensor.shape.front() : 1;
    if (!row || CheckedMultiply(*row, rows) != tensor.bytes) {
      return InvalidFile(fmt::format("tensor {} that came has {} bytes, which its shape has not", tensor.name, tensor.bytes), tensor.file_name);
    }
  }
  return OkStatus();
}

// Of a block outside the columns that are wanted: its scale, and its minimum where it has one.
std::uint64_t BlockHeadBytes(DType type) {
  switch (type) {
    case DType::kQ4_0:
    case DType::kQ8_0:
      return 2;
    case DType::kQ4_1:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

template <class Wire, wire::Same<RopeConfig> T>
void Fields(Wire& wire, T& value) {
  wire(value.base, value.dimensions);
  wire.Enum(value.scaling, RopeScaling::kYarn);
  wire(value.factor, value.original_context, value.low_frequency_factor, value.high_frequency_factor, value.attention_factor, value.beta_fast,
       value.beta_slow, value.frequency_divisors);
}
template <class Wire, wire::Same<ModelConfig> T>
void Fields(Wire& wire, T& value) {
  wire(value.name, value.architecture, value.layers, value.hidden, value.heads, value.kv_heads, value.head_dim, value.feed_forward,
       value.vocabulary, value.context, value.norm_epsilon, value.tied_embedding, value.attention_bias, value.mlp_bias,
       value.interleaved_rope_rows, value.rope, value.bos, value.eos, value.parameters, value.weight_format);
}
template <class Wire, wire::Same<TensorInfo> T>
void Fields(Wire& wire, T& value) {
  wire(value.name, value.file_name, value.shape);
  wire.Enum(value.dtype, DType::kQ8_0);
  wire(value.bytes);
}
template <class Wire, wire::Same<ModelHead> T>
void Fields(Wire& wire, T& value) {
  wire(value.config, value.tensors, value.path, value.identity);
}

std::vector<std::byte> EncodeHead(const ModelHead& head) { return wire::Encode(kHeadFrame, head); }

Result<std::size_t> HeadFrameBytes(std::span<const std::byte> begin) {
  wire::Reader reader(begin);
  wire::FrameKind kind;
  std::uint64_t body = 0;
  reader(kind.magic, kind.version, kind.kind, body);
  if (!reader.ok() || kind != kHeadFrame) return InvalidFile("what came does not begin as a model does");
  if (body > kHeadBytesMax) return InvalidFile(fmt::format("a model's head says it has {} bytes, at most {} are taken", body, kHeadBytesMax));
  return kFrameExtraBytes + static_cast<std::size_t>(body);
}

Result<ModelHead> DecodeHead(std::span<const std::byte> frame) {
  SKEIN_ASSIGN_OR_RETURN(ModelHead head, wire::Decode<ModelHead>(kHeadFrame, frame));
  SKEIN_RETURN_IF_ERROR(CheckConfig(head.config));
  SKEIN_RETURN_IF_ERROR(CheckTensors(head.config, head.tensors));
  return head;
}

std::optional<RowRuns> RunsOf(const TensorInfo& tensor, std::uint64_t begin_column, std::uint64_t end_column) {
  if (tensor.shape.size() != 2 || begin_column >= end_column || end_column > tensor.shape.back()) return std::nullopt;
  const DTypeInfo& type = InfoOf(tensor.dtype);
  const auto elements = static_cast<std::uint64_t>(type.block_elements), bytes = static_cast<std::uint64_t>(type.block_bytes);
  return RowRuns{.block_bytes = bytes,
                 .head_bytes = BlockHeadBytes(tensor.dtype),
                 .row_bytes = tensor.shape.back() / elements * bytes,
                 .begin = begin_column / elements * bytes,
                 .end = (end_column + elements - 1) / elements * bytes};
}

Status CheckRequest(const TensorInfo& tensor, const PieceRequest& request) {
  std::optional<std::uint64_t> last, size;
  if (request.rows == 0) {
    last = CheckedAdd(request.first, request.end);
    size = request.end;
  } else if (const std::optional<RowRuns> runs = RunsOf(tensor, request.begin, request.end)) {
    const std::optional<std::uint64_t> end_row = CheckedAdd(request.first, request.rows);
    if (end_row) last = CheckedMultiply(*end_row, runs->row_bytes);
    size = CheckedMultiply(request.rows, runs->row_bytes);
  }
  if (last && size && *last <= tensor.bytes && *size <= kPieceBytesMax) return OkStatus();
  return InvalidArgument(fmt::format("a request for bytes that tensor {} has not, or for too many", tensor.file_name));
}

}  // namespace skein::formats
