// SPDX-License-Identifier: Apache-2.0
//
// A step of the llama family. All workers run Step side by side; each line of a layer is a *phase* with a barrier
// behind it:
//   norm, rounding to inputs        (few rows: every worker for itself, without a barrier)
//   q, k, v
//   rotation of q and k; k and v to their KV places
//   attention, rounding to inputs   (few long rows: splits of keys apart, then a phase that folds them)
//   o, added to the residual
//   norm, rounding to inputs
//   gate and up, SwiGLU, rounding to inputs
//   down, added to the residual
#include "model/arch/llama_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "model/batch_layout.h"
#include "model/inputs.h"
#include "model/multiply.h"
#include "model/rope.h"
#include "model/sinks.h"
#include "model/weight_plan.h"

namespace skein::model {
namespace {

using formats::ModelConfig;
using kernels::Worker;

// Counters of the pool, one per phase that takes pieces from one.
enum Counter { kQkv, kAttention, kOutput, kGateUp, kDown, kHead };

constexpr int kOwnRows = 4;  // rows that a worker may prepare for itself
constexpr std::int64_t kPartialFloats = 2 << 20;  // room for partial results of attention

// fp32 [rows, stride]; strides are odd numbers of cache lines, so that a column of rows spreads over cache sets.
class FloatRows {
 public:
  static std::ptrdiff_t StrideFor(int columns) { return ((columns + 15) / 16 | 1) * 16; }
  Status Reserve(int rows, int columns) {
    stride_ = StrideFor(columns);
    SKEIN_ASSIGN_OR_RETURN(data_, Buffer::Allocate(static_cast<std::size_t>(rows * stride_) * sizeof(float)));
    return OkStatus();
  }
  float* row(int index) { return data_.as<float>() + index * stride_; }
  const float* row(int index) const { return data_.as<float>() + index * stride_; }
  std::ptrdiff_t stride() const { return stride_; }

 private:
  Buffer data_;
  std::ptrdiff_t stride_ = 0;
};

// What one worker has for itself.
struct alignas(64) WorkerState {
  Inputs hidden;                         // a few rows
  FloatRows normed;                      // one row
  FloatRows tile;                        // SwiGluSink's scratch
  Buffer scratch;                        // of kernels
};

int QkvColumns(const ModelConfig& config) { return (config.heads + 2 * config.kv_heads) * config.head_dim; }

class LlamaDecoder final : public Decoder {
 public:
  LlamaDecoder(const Model& model, KvStore& kv, kernels::ThreadPool& pool, Limits limits)
      : config_(model.config()),
        weights_(model.weights()),
        kv_(kv),
        pool_(pool),
        limits_(limits),
        rows_(kernels::SelectRows(model.path())),
        attention_(kernels::SelectAttention(model.path(), *model.AttentionArithmetic(kv.layout().type), kv.layout().type)),
        group_(config_.heads / config_.kv_heads),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))) {}

  Status Reserve();
  std::span<const float> Forward(const Batch& batch) override;
  std::span<const float> Hidden(int index) const override {
    return {hidden_.row(index), static_cast<std::size_t>(config_.hidden)};
  }

 private:
  void CheckBatch(const Batch& batch) const;
  void Step(Worker& worker);
  void Embed(Worker& worker);
  void AttentionBranch(Worker& worker, int layer);
  void FeedForwardBranch(Worker& worker, const LayerWeights& layer);
  void Head(Worker& worker);

  Inputs& PrepareHidden(Worker& worker, const std::vector<float>& norm, const std::vector<Matrix>& matrices, int rows,
                        bool outputs_only);
  void RotateAndStore(Worker& worker, int layer);
  void Attend(Worker& worker, int layer);
  void AttendSplits(Worker& worker, int layer);
  void Fold(Worker& worker, int layer);
  kernels::AttentionBlock BlockOf(int layer, int kv_head, const Chunk& chunk);
  void PrepareAttended(const LayerWeights& layer, int kv_head, const Chunk& chunk);
  void GateUp(Worker& worker, const LayerWeights& layer);
  void EndPhase(Worker& worker, int counter);

  WorkerState& StateOf(const Worker& worker) { return workers_[static_cast<std::size_t>(worker.index())]; }
  int tokens() const { return static_cast<int>(batch_.tokens.size()); }
  int outputs() const { return static_cast<int>(batch_.outputs.size()); }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  KvStore& kv_;
  kernels::ThreadPool& pool_;
  const Limits limits_;
  const kernels::RowKernels& rows_;
  const kernels::AttentionKernel attention_;
  const int group_;
  const float scale_;
  std::vector<int> attended_cell_;  // [kv_heads + 1]: first cell of o's inputs that comes from a KV head's group
  RopeTable rope_;
  BatchLayout layout_;
  Batch batch_;  // of the step that runs

  FloatRows residual_;     // [tokens, hidden]
  FloatRows hidden_;       // [outputs, hidden]: states that the batch asks for
  FloatRows qkv_;          // [tokens, q | k | v]
  FloatRows attended_;     // [tokens, heads * head_dim]
  FloatRows wide_;         // [tokens, feed_forward]: SwiGLU's results
  FloatRows gate_up_;      // [tokens, gate | up]: only where their types differ
  Inputs hidden_inputs_, attended_inputs_, wide_inputs_;
  Buffer partials_;        // fp32, cut by layout_
  Buffer logits_;          // fp32 [outputs, vocabulary]
  std::vector<WorkerState> workers_;
};

Status LlamaDecoder::Reserve() {
  const std::uint64_t positions = std::min<std::uint64_t>(std::uint64_t{kv_.frames()} * kernels::kFrameTokens, INT32_MAX / 2);
  SKEIN_ASSIGN_OR_RETURN(rope_, RopeTable::Create(MakeRopeFrequencies(config_), static_cast<int>(positions)));
  SKEIN_RETURN_IF_ERROR(residual_.Reserve(limits_.tokens, config_.hidden));
  SKEIN_RETURN_IF_ERROR(hidden_.Reserve(limits_.outputs, config_.hidden));
  SKEIN_RETURN_IF_ERROR(qkv_.Reserve(limits_.tokens, QkvColumns(config_)));
  SKEIN_RETURN_IF_ERROR(attended_.Reserve(limits_.tokens, config_.heads * config_.head_dim));
  SKEIN_RETURN_IF_ERROR(wide_.Reserve(limits_.tokens, config_.feed_forward + kInterleave));
  SKEIN_ASSIGN_OR_RETURN(partials_, Buffer::Allocate(kPartialFloats * sizeof(float)));
  SKEIN_ASSIGN_OR_RETURN(logits_, Buffer::Allocate(sizeof(float) * static_cast<std::size_t>(limits_.outputs) *
                                                   static_cast<std::size_t>(config_.vocabulary)));
  layout_ = BatchLayout(limits_.tokens, config_.kv_heads, std::max(1, attention_.preferred_rows / group_),
                        std::int64_t{group_} * (2 + config_.head_dim), kPartialFloats);

  workers_ = std::vector<WorkerState>(static_cast<std::size_t>(pool_.threads()));
  std::size_t scratch = attention_.scratch_bytes(kv_.layout());
  const auto use = [&](const std::vector<Matrix>& matrices) {
    for (const Matrix& matrix : matrices) scratch = std::max(scratch, matrix.kernel.scratch_bytes(matrix.packed.cells()));
  };
  const auto use_hidden = [&](const std::vector<Matrix>& matrices) {
    use(matrices);
    hidden_inputs_.Reserve(matrices, std::max(limits_.tokens, limits_.outputs));
    for (WorkerState& worker : workers_) worker.hidden.Reserve(matrices, kOwnRows);
  };
  for (const LayerWeights& layer : weights_.layers) {
    use_hidden(layer.qkv);
    use_hidden(layer.gate_up);
    use(layer.o);
    use(layer.down);
    attended_inputs_.Reserve(layer.o, limits_.tokens);
    wide_inputs_.Reserve(layer.down, limits_.tokens);
    if (!layer.interleaved() && gate_up_.stride() == 0) {
      SKEIN_RETURN_IF_ERROR(gate_up_.Reserve(limits_.tokens, 2 * config_.feed_forward));
    }
  }
  use_hidden(weights_.HeadMatrices());
  for (WorkerState& worker : workers_) {
    SKEIN_ASSIGN_OR_RETURN(worker.scratch, Buffer::Allocate(std::max<std::size_t>(scratch, 64)));
    SKEIN_RETURN_IF_ERROR(worker.normed.Reserve(1, config_.hidden));
    SKEIN_RETURN_IF_ERROR(worker.tile.Reserve(1, SwiGluSink::kScratchFloats));
  }

  const kernels::Cells& cells = weights_.layers.front().o.front().packed.cells();
  for (int head = 0, cell = 0; head <= config_.kv_heads; ++head) {
    while (cell < cells.count() && cells.cells[static_cast<std::size_t>(cell)].count > 0 &&
           cells.cells[static_cast<std::size_t>(cell)].begin < head * group_ * config_.head_dim) {
      ++cell;
    }
    attended_cell_.push_back(cell);
  }
  return OkStatus();
}

void LlamaDecoder::CheckBatch(const Batch& batch) const {
  SKEIN_CHECK(batch.tokens.size() <= static_cast<std::size_t>(limits_.tokens));
  SKEIN_CHECK(batch.outputs.size() <= static_cast<std::size_t>(limits_.outputs));
  SKEIN_CHECK(batch.hidden.size() <= static_cast<std::size_t>(limits_.outputs));
  std::int32_t next = 0;
  for (const BatchRow& row : batch.rows) {
    SKEIN_CHECK(row.first_token == next);
    SKEIN_CHECK(row.count > 0);
    SKEIN_CHECK(row.first_position >= 0);
    next += row.count;
    const std::int64_t positions = std::int64_t{row.first_position} + row.count;
    SKEIN_CHECK(positions <= static_cast<std::int64_t>(row.blocks.size()) * kernels::kBlockTokens);
    for (const BlockId block : row.blocks) SKEIN_CHECK(block.value < kv_.blocks());
  }
  SKEIN_CHECK(static_cast<std::size_t>(next) == batch.tokens.size());
  for (const TokenId token : batch.tokens) SKEIN_CHECK(token >= 0 && token < config_.vocabulary);
  for (const std::int32_t output : batch.outputs) SKEIN_CHECK(output >= 0 && output < next);
  for (const std::int32_t token : batch.hidden) SKEIN_CHECK(token >= 0 && token < next);
}

std::span<const float> LlamaDecoder::Forward(const Batch& batch) {
  CheckBatch(batch);
  if (batch.tokens.empty()) return {};
  batch_ = batch;
  layout_.Build(batch, pool_.threads());
  pool_.Run([this](Worker& worker) { Step(worker); });
  rope_.SetComputed(std::max(rope_.computed(), layout_.last_position() + 1));
  return {logits_.as<float>(), static_cast<std::size_t>(outputs()) * static_cast<std::size_t>(config_.vocabulary)};
}

void LlamaDecoder::EndPhase(Worker& worker, int counter) {
  worker.Barrier();
  if (worker.index() == 0) worker.ResetCounter(counter);  // others use it again behind another barrier at the earliest
}

void LlamaDecoder::Step(Worker& worker) {
  Embed(worker);
  worker.Barrier();
  for (int layer = 0; layer < config_.layers; ++layer) {
    AttentionBranch(worker, layer);
    FeedForwardBranch(worker, weights_.layers[static_cast<std::size_t>(layer)]);
  }
  const auto share = worker.ShareOf(static_cast<int>(batch_.hidden.size()));
  for (int i = share.begin; i < share.end; ++i) {
    rows_.rms_norm(residual_.row(batch_.hidden[static_cast<std::size_t>(i)]), weights_.output_norm.data(), config_.norm_epsilon,
                   config_.hidden, hidden_.row(i));
  }
  if (outputs() > 0) Head(worker);
}

void LlamaDecoder::Embed(Worker& worker) {
  const auto share = worker.ShareOf(tokens());
  for (int token = share.begin; token < share.end; ++token) {
    weights_.embedding.front().packed.DequantizeRow(batch_.tokens[static_cast<std::size_t>(token)], residual_.row(token));
  }
  const int known = rope_.computed(), wanted = layout_.last_position() + 1;
  if (wanted <= known) return;
  const auto positions = worker.ShareOf(wanted - known);
  rope_.Compute(known + positions.begin, known + positions.end);
}

// The norm of each row of the residual (of the rows whose logits are wanted, for the head), rounded for `matrices`.
Inputs& LlamaDecoder::PrepareHidden(Worker& worker, const std::vector<float>& norm, const std::vector<Matrix>& matrices,
                                    int rows, bool outputs_only) {
  WorkerState& state = StateOf(worker);
  const int shared_rows = (rows + worker.count() - 1) / worker.count();
  const bool own = rows <= kOwnRows && (rows - shared_rows) * config_.hidden <= 1024;
  Inputs& inputs = own ? state.hidden : hidden_inputs_;
  const auto share = own ? Worker::Range{0, rows} : worker.ShareOf(rows);
  for (int row = share.begin; row < share.end; ++row) {
    const int token = outputs_only ? batch_.outputs[static_cast<std::size_t>(row)] : row;
    rows_.rms_norm(residual_.row(token), norm.data(), config_.norm_epsilon, config_.hidden, state.normed.row(0));
    inputs.Prepare(rows_, matrices, state.normed.row(0), row);
  }
  if (!own) worker.Barrier();
  return inputs;
}

void LlamaDecoder::AttentionBranch(Worker& worker, int layer) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  std::byte* scratch = StateOf(worker).scratch.data();
  Inputs& hidden = PrepareHidden(worker, weights.attention_norm, weights.qkv, tokens(), /*outputs_only=*/false);
  Multiply(worker, kQkv, weights.qkv, hidden, tokens(),
           ColumnSink{.out = qkv_.row(0), .stride = qkv_.stride(), .bias = weights.qkv_bias.empty() ? nullptr : weights.qkv_bias.data()},
           scratch);
  EndPhase(worker, kQkv);
  RotateAndStore(worker, layer);
  worker.Barrier();
  if (layout_.split()) {
    AttendSplits(worker, layer);
    EndPhase(worker, kAttention);
    Fold(worker, layer);
    worker.Barrier();
  } else {
    Attend(worker, layer);
    EndPhase(worker, kAttention);
  }
  Multiply(worker, kOutput, weights.o, attended_inputs_, tokens(),
           ResidualSink{.residual = residual_.row(0), .stride = residual_.stride(),
                        .bias = weights.o_bias.empty() ? nullptr : weights.o_bias.data(), .rows = &rows_},
           scratch);
  EndPhase(worker, kOutput);
}

// Items are (quarter, KV head): the head's K, its V, and the queries of its group.
void LlamaDecoder::RotateAndStore(Worker& worker, int layer) {
  const int d = config_.head_dim, rotated = config_.rope.dimensions, kv_heads = config_.kv_heads;
  const auto share = worker.ShareOf(static_cast<int>(layout_.quarters().size()) * kv_heads);
  for (int item = share.begin; item < share.end; ++item) {
    const TokenRange& quarter = layout_.quarters()[static_cast<std::size_t>(item / kv_heads)];
    const int head = item % kv_heads;
    const BatchRow& row = batch_.rows[static_cast<std::size_t>(quarter.row)];
    const BlockId block = row.blocks[static_cast<std::size_t>(quarter.first_position / kernels::kBlockTokens)];
    std::byte* frame = kv_.frame(layer, head, block);
    const int first_slot = KvStore::SlotOf(block);
    for (int i = 0; i < quarter.count; ++i) {
      const int position = quarter.first_position + i;
      const float* cosine = rope_.cosine(position);
      const float* sine = rope_.sine(position);
      float* q = qkv_.row(quarter.first_token + i) + head * group_ * d;
      float* k = qkv_.row(quarter.first_token + i) + (config_.heads + head) * d;
      for (int g = 0; g < group_; ++g) rows_.rope(q + g * d, rotated, cosine, sine);
      rows_.rope(k, rotated, cosine, sine);
      attention_.store(kv_.layout(), frame, first_slot + position % kernels::kBlockTokens, k, k + kv_heads * d);
    }
  }
}

kernels::AttentionBlock LlamaDecoder::BlockOf(int layer, int kv_head, const Chunk& chunk) {
  return {.layout = kv_.layout(),
          .frames = kv_.base(layer, kv_head),
          .blocks = batch_.rows[static_cast<std::size_t>(chunk.row)].blocks.data(),
          .queries = qkv_.row(chunk.first_token) + kv_head * group_ * config_.head_dim,
          .query_stride = qkv_.stride(),
          .tokens = chunk.count,
          .group = group_,
          .first_position = chunk.first_position,
          .scale = scale_};
}

// Rounds what a chunk's tokens got from a KV head's group: the cells of those heads.
void LlamaDecoder::PrepareAttended(const LayerWeights& layer, int kv_head, const Chunk& chunk) {
  const int column = kv_head * group_ * config_.head_dim;
  const int begin = attended_cell_[static_cast<std::size_t>(kv_head)];
  const int end = attended_cell_[static_cast<std::size_t>(kv_head) + 1];
  attended_inputs_.PrepareCells(rows_, layer.o, attended_.row(chunk.first_token) + column, attended_.stride(),
                                chunk.first_token, chunk.first_token + chunk.count, begin, end);
}

// Items are (KV head, chunk), all chunks of a head after another: they read the same keys.
void LlamaDecoder::Attend(Worker& worker, int layer) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  WorkerState& state = StateOf(worker);
  const int chunks = static_cast<int>(layout_.chunks().size());
  const auto attend = [&](int item) {
    const int head = item / chunks;
    const Chunk& chunk = layout_.chunks()[static_cast<std::size_t>(item % chunks)];
    attention_.attend(BlockOf(layer, head, chunk), attended_.row(chunk.first_token) + head * group_ * config_.head_dim,
                      attended_.stride(), state.scratch.data());
    PrepareAttended(weights, head, chunk);
  };
  const int items = chunks * config_.kv_heads;
  for (;;) {
    const auto taken = worker.TakeFrom(kAttention, items, 1);
    if (taken.begin >= taken.end) return;
    attend(taken.begin);
  }
}

// Items are (chunk, KV head, split).
void LlamaDecoder::AttendSplits(Worker& worker, int layer) {
  WorkerState& state = StateOf(worker);
  for (;;) {
    const auto taken = worker.TakeFrom(kAttention, layout_.split_items(), 1);
    if (taken.begin >= taken.end) return;
    const Chunk& chunk = layout_.ChunkOfItem(taken.begin);
    const int head = (taken.begin - chunk.first_item) / chunk.splits, split = (taken.begin - chunk.first_item) % chunk.splits;
    const std::int64_t floats = std::int64_t{chunk.count} * group_ * (2 + config_.head_dim);
    float* partials = partials_.as<float>() + chunk.partials + (std::int64_t{head} * chunk.splits + split) * floats;
    attention_.attend_splits(BlockOf(layer, head, chunk), split, split + 1, partials, state.scratch.data());
  }
}

void LlamaDecoder::Fold(Worker& worker, int layer) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const auto share = worker.ShareOf(static_cast<int>(layout_.chunks().size()) * config_.kv_heads);
  for (int item = share.begin; item < share.end; ++item) {
    const Chunk& chunk = layout_.chunks()[static_cast<std::size_t>(item / config_.kv_heads)];
    const int head = item % config_.kv_heads;
    const std::int64_t floats = std::int64_t{chunk.count} * group_ * (2 + config_.head_dim);
    attention_.fold(BlockOf(layer, head, chunk), chunk.splits,
                    partials_.as<float>() + chunk.partials + std::int64_t{head} * chunk.splits * floats,
                    attended_.row(chunk.first_token) + head * group_ * config_.head_dim, attended_.stride());
    PrepareAttended(weights, head, chunk);
  }
}

void LlamaDecoder::FeedForwardBranch(Worker& worker, const LayerWeights& layer) {
  GateUp(worker, layer);
  EndPhase(worker, kGateUp);
  Multiply(worker, kDown, layer.down, wide_inputs_, tokens(),
           ResidualSink{.residual = residual_.row(0), .stride = residual_.stride(),
                        .bias = layer.down_bias.empty() ? nullptr : layer.down_bias.data(), .rows = &rows_},
           StateOf(worker).scratch.data());
  EndPhase(worker, kDown);
}

void LlamaDecoder::GateUp(Worker& worker, const LayerWeights& layer) {
  std::byte* scratch = StateOf(worker).scratch.data();
  const float* bias = layer.gate_up_bias.empty() ? nullptr : layer.gate_up_bias.data();
  Inputs& hidden = PrepareHidden(worker, layer.feed_forward_norm, layer.gate_up, tokens(), /*outputs_only=*/false);
  if (layer.interleaved()) {
    // Two panels make the 32 columns of one cell of down's inputs.
    const int cells = (config_.feed_forward + kernels::kCellWidth - 1) / kernels::kCellWidth;
    Multiply(worker, kGateUp, layer.gate_up, hidden, tokens(),
             SwiGluSink{.out = wide_.row(0), .stride = wide_.stride(), .bias = bias, .rows = &rows_,
                        .scratch = StateOf(worker).tile.row(0)},
             scratch, /*unit=*/2,
             [&](int panel_begin, int panel_end, int row_begin, int row_end) {
               const int cell = panel_begin / 2, cell_end = std::min((panel_end + 1) / 2, cells);
               wide_inputs_.PrepareCells(rows_, layer.down, wide_.row(row_begin) + cell * kernels::kCellWidth, wide_.stride(),
                                         row_begin, row_end, cell, cell_end);
             });
    return;
  }
  Multiply(worker, kGateUp, layer.gate_up, hidden, tokens(),
           ColumnSink{.out = gate_up_.row(0), .stride = gate_up_.stride(), .bias = bias}, scratch);
  worker.Barrier();
  const auto share = worker.ShareOf(tokens());
  rows_.swiglu(gate_up_.row(share.begin), gate_up_.row(share.begin) + config_.feed_forward, gate_up_.stride(),
               share.end - share.begin, config_.feed_forward, wide_.row(share.begin), wide_.stride());
  for (int row = share.begin; row < share.end; ++row) wide_inputs_.Prepare(rows_, layer.down, wide_.row(row), row);
}

void LlamaDecoder::Head(Worker& worker) {
  const std::vector<Matrix>& head = weights_.HeadMatrices();
  Inputs& hidden = PrepareHidden(worker, weights_.output_norm, head, outputs(), /*outputs_only=*/true);
  Multiply(worker, kHead, head, hidden, outputs(), ColumnSink{.out = logits_.as<float>(), .stride = config_.vocabulary},
           StateOf(worker).scratch.data());
}

}  // namespace

Result<std::unique_ptr<Decoder>> MakeLlamaDecoder(const Model& model, KvStore& kv, kernels::ThreadPool& pool,
                                                  Decoder::Limits limits) {
  SKEIN_CHECK(limits.tokens > 0);
  SKEIN_CHECK(limits.outputs > 0);
  if (!model.AttentionArithmetic(kv.layout().type)) {
    return InvalidArgument(fmt::format("kv-dtype {}: does not go with the arithmetic {}; take {}", NameOf(kv.layout().type),
                                       NameOf(model.arithmetic()), NameOf(DefaultKvType(model.arithmetic()))),
                           "kv-dtype");
  }
  auto decoder = std::make_unique<LlamaDecoder>(model, kv, pool, limits);
  SKEIN_RETURN_IF_ERROR(decoder->Reserve());
  return std::unique_ptr<Decoder>(std::move(decoder));
}

std::uint64_t LlamaScratchBytes(const ModelConfig& config, const Decoder::Limits& limits, int threads, std::uint32_t frames) {
  const auto number = [](int value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t attended = number(config.heads * config.head_dim);
  const std::uint64_t columns = 3 * number(config.hidden) + number(QkvColumns(config)) + 3 * attended + 4 * number(config.feed_forward);
  const std::uint64_t worker = (std::uint64_t{2} << 20) + 8 * kOwnRows * number(config.hidden);
  return sizeof(float) * (number(limits.tokens) * columns + number(limits.outputs) * (number(config.vocabulary) + number(config.hidden)) + kPartialFloats) +
         RopeTable::BytesFor(config.rope.dimensions / 2, std::uint64_t{frames} * kernels::kFrameTokens) + number(threads) * worker;
}

}  // namespace skein::model
