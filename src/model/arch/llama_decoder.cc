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
// On a mesh, what o and down give is a part of a sum: worker 0 adds up those of all ranks of the tensor axis (two all-reduces a layer, no
// more), and the residual is received from the pipe stage before and sent to the one behind. Between hosts a step with many tokens goes in two
// *parts* of its tokens: while one part's sum is on the way, the other part is computed (RunOverlapped).
#include "model/arch/llama_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "model/batch_layout.h"
#include "model/courier.h"
#include "model/inputs.h"
#include "model/multiply.h"
#include "model/phase_clock.h"
#include "model/rope.h"
#include "model/sinks.h"
#include "model/slice_sums.h"
#include "model/slice_tree.h"
#include "model/weight_plan.h"

namespace skein::model {
namespace {

using formats::ModelConfig;
using kernels::Worker;

// Counters of the pool, one per phase that takes pieces from one.
enum Counter { kQkv, kAttention, kOutput, kGateUp, kDown, kHead };

Phase PhaseOf(int counter) {
  constexpr Phase kPhaseOfCounter[] = {Phase::kQkv, Phase::kAttention, Phase::kOutput, Phase::kGateUp, Phase::kDown, Phase::kHead};
  return kPhaseOfCounter[counter];
}

constexpr int kPartUnit = 64;  // tokens; what matrices are cut by
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
  Inputs hidden, head;                   // a few rows
  FloatRows normed;                      // one row
  FloatRows tile;                        // SwiGluSink's scratch
  Buffer slice_tiles;                    // SliceSums'
  Buffer scratch;                        // of kernels
};

int QkvColumns(const ModelConfig& config) { return (config.heads + 2 * config.kv_heads) * config.head_dim; }

class LlamaDecoder final : public Decoder {
 public:
  LlamaDecoder(const Model& model, KvStore& kv, kernels::ThreadPool& pool, Limits limits, RankLinks links, PhaseClock* phases)
      : whole_(model.config()),
        config_(model.local()),
        share_(model.share()),
        weights_(model.weights()),
        links_(links),
        kv_(kv),
        pool_(pool),
        limits_(limits),
        rows_(kernels::SelectRows(model.path())),
        attention_(kernels::SelectAttention(model.path(), *model.AttentionArithmetic(kv.layout().type), kv.layout().type)),
        phases_(phases),
        group_(whole_.heads / whole_.kv_heads),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))) {}

  Status Reserve();
  Result<std::span<const float>> Forward(const Batch& batch) override;
  std::uint64_t communication_ns() const override { return communication_ns_; }
  std::span<const float> Hidden(int index) const override {
    return {hidden_.row(index), static_cast<std::size_t>(config_.hidden)};
  }

 private:
  void CheckBatch(const Batch& batch) const;
  void Step(Worker& worker);
  void Begin(Worker& worker);
  void Embed(Worker& worker);
  void GatherEmbeddings();
  // As it is handed from one stage of the pipe to the next.
  std::span<std::byte> ResidualBytes() {
    return std::as_writable_bytes(std::span(residual_.row(0), static_cast<std::size_t>(tokens() * residual_.stride())));
  }
  void AttentionBranch(Worker& worker, int layer);
  void FeedForwardBranch(Worker& worker, const LayerWeights& layer);
  // All layers, the tokens in two parts. Sums wait for each other only where a part needs one.
  bool overlaps() const { return courier_ != nullptr && tokens() >= 2 * kPartUnit; }
  void RunOverlapped(Worker& worker);
  void MultiplyQkv(Worker& worker, const LayerWeights& weights, Span rows);
  // Of the chunks that begin in `part`.
  void AttendPart(Worker& worker, int layer, Span part);
  void PostPartials(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, Span rows, std::uint64_t& sum);
  void AwaitSum(Worker& worker, std::uint64_t sum, const std::vector<float>& bias, Span rows);
  // Of the slice tree, for sums over ranks.
  struct Nodes {
    std::vector<SummedNode> mine;
    std::vector<std::size_t> of_rank;  // how many each rank has
    std::vector<Merge> merges;
    int first_slice = 0;               // of this rank
    int first = 0;                     // place of mine among all
    int all = 0;
  };
  Nodes NodesOf(int slice_width, int columns, const std::vector<Span>& owned) const;
  void ReserveHeads();
  void ReserveNodes();
  Status ReserveShared();
  void AddToResidual(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, const Nodes& nodes,
                     const std::vector<float>& bias);
  void AddSlices(Worker& worker, int counter, const std::vector<Matrix>& slices, Inputs& inputs, const Nodes& nodes,
                 const std::vector<float>& bias);
  void AddNodes(Worker& worker, int counter, const std::vector<Matrix>& slices, Inputs& inputs, const Nodes& nodes,
                const std::vector<float>& bias);
  void AddPartials(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, const std::vector<float>& bias);
  void MultiplyPartials(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, Span rows);
  comm::Reduction SumOf(Span rows);
  void AddBias(const std::vector<float>& bias, Span rows);
  // Worker 0: runs what talks to other ranks.
  template <typename Talk>
  void Communicate(Talk talk) {
    const auto begin = std::chrono::steady_clock::now();
    const Status status = talk();
    communication_ns_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    if (status_.ok()) status_ = status;
    if (phases_ != nullptr) [[unlikely]] phases_->Mark(Phase::kCommunicate);
  }
  void Head(Worker& worker);

  Inputs& PrepareHidden(Worker& worker, const std::vector<float>& norm, const std::vector<Matrix>& matrices, Span rows,
                        bool outputs_only);
  void RotateAndStore(Worker& worker, int layer);
  void Attend(Worker& worker, int layer, Span part);
  void AttendSplits(Worker& worker, int layer);
  void Fold(Worker& worker, int layer);
  kernels::AttentionBlock BlockOf(int layer, int kv_head, const Chunk& chunk);
  // fp32 [splits][rows][2 + head_dim]; there is room for whole groups.
  float* PartialsOf(const Chunk& chunk, int kv_head) {
    const std::int64_t floats = std::int64_t{chunk.count} * group_ * (2 + config_.head_dim);
    return partials_.as<float>() + chunk.partials + std::int64_t{kv_head} * chunk.splits * floats;
  }
  void PrepareAttended(const LayerWeights& layer, int kv_head, const Chunk& chunk);
  void GateUp(Worker& worker, const LayerWeights& layer, Span rows);
  // A phase ends, behind a barrier; `counter`: it took pieces from one.
  void Barrier(Worker& worker, Phase phase);
  void EndPhase(Worker& worker, int counter);
  void Mark(const Worker& worker, Phase phase) {
    if (phases_ != nullptr && worker.index() == 0) [[unlikely]] phases_->Mark(phase);
  }

  WorkerState& StateOf(const Worker& worker) { return workers_[static_cast<std::size_t>(worker.index())]; }
  int tokens() const { return static_cast<int>(batch_.tokens.size()); }
  Span all_rows() const { return {0, tokens()}; }
  int outputs() const { return static_cast<int>(batch_.outputs.size()); }
  bool sharded() const { return links_.tensor != nullptr; }
  // Queries of a KV head of this share: the first, and how many.
  int FirstQuery(int kv_head) const { return first_query_[static_cast<std::size_t>(kv_head)]; }
  int Group(int kv_head) const { return FirstQuery(kv_head + 1) - FirstQuery(kv_head); }

  const ModelConfig& whole_;
  const ModelConfig& config_;  // of the share
  const Share& share_;
  const ModelWeights& weights_;
  const RankLinks links_;
  KvStore& kv_;
  kernels::ThreadPool& pool_;
  const Limits limits_;
  const kernels::RowKernels& rows_;
  const kernels::AttentionKernel attention_;
  PhaseClock* const phases_;  // null: nobody asks where the time goes
  const int group_;  // query heads of a KV head; a share may have fewer of its first and of its last one
  const float scale_;
  std::vector<int> first_query_;    // [kv_heads + 1]
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
  Inputs hidden_inputs_, attended_inputs_, wide_inputs_, head_inputs_;
  Buffer partials_;        // fp32, cut by layout_
  Buffer logits_;          // fp32 [outputs, vocabulary]
  std::vector<WorkerState> workers_;

  // Of ranks that share layers.
  std::unique_ptr<Courier> courier_;  // null: sums are formed where they are needed
  FloatRows partial_;              // [tokens, hidden]: this rank's part of a sum over ranks
  Nodes head_nodes_, column_nodes_;
  Buffer node_sums_;               // fp32 [nodes of all ranks][tokens, hidden]
  std::vector<std::size_t> gathered_bytes_;  // by rank
  std::vector<float> embedded_, gathered_;   // of the tokens whose rows this rank has; of all
  std::vector<const float*> next_embedding_;  // by rank, in gathered_
  Status status_;                  // of communication; worker 0's until the region ends
  std::uint64_t communication_ns_ = 0;
};

LlamaDecoder::Nodes LlamaDecoder::NodesOf(int slice_width, int columns, const std::vector<Span>& owned) const {
  const auto slice_of = [&](int column) { return (column + slice_width - 1) / slice_width; };
  Nodes nodes;
  std::vector<Span> all;
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    const std::vector<Span> own = OwnedNodes(slice_of(columns), {slice_of(owned[rank].begin), slice_of(owned[rank].end)});
    if (static_cast<int>(rank) == share_.tensor_rank) {
      for (const Span node : own) nodes.mine.push_back({node, StackStepsOf(slice_of(columns), node)});
      nodes.first = static_cast<int>(all.size());
      nodes.first_slice = slice_of(owned[rank].begin);
    }
    nodes.of_rank.push_back(own.size());
    all.insert(all.end(), own.begin(), own.end());
  }
  nodes.all = static_cast<int>(all.size());
  nodes.merges = MergesOf(slice_of(columns), all);
  return nodes;
}

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
                                                   static_cast<std::size_t>(std::max(config_.vocabulary, 1))));
  layout_ = BatchLayout(limits_.tokens, config_.kv_heads, std::max(1, attention_.preferred_rows / group_),
                        std::int64_t{group_} * (2 + config_.head_dim), kPartialFloats);

  workers_ = std::vector<WorkerState>(static_cast<std::size_t>(pool_.threads()));
  std::size_t scratch = attention_.scratch_bytes(kv_.layout());
  const auto use = [&](const std::vector<Matrix>& matrices) {
    for (const Matrix& matrix : matrices) scratch = std::max(scratch, matrix.kernel.scratch_bytes(matrix.packed.cells()));
  };
  const auto use_hidden = [&](const std::vector<Matrix>& matrices) {
    use(matrices);
    hidden_inputs_.Reserve(matrices, limits_.tokens);
    for (WorkerState& worker : workers_) worker.hidden.Reserve(matrices, kOwnRows);
  };
  for (const LayerWeights& layer : weights_.layers) {
    use_hidden(layer.qkv);
    use_hidden(layer.gate_up);
    use(layer.o);
    use(layer.down);
    attended_inputs_.Reserve(layer.o, layer.o_inputs, limits_.tokens);
    wide_inputs_.Reserve(layer.down, layer.down_inputs, limits_.tokens);
    if (!layer.gate_up.empty() && !layer.interleaved() && gate_up_.stride() == 0) {
      SKEIN_RETURN_IF_ERROR(gate_up_.Reserve(limits_.tokens, 2 * config_.feed_forward));
    }
  }
  if (share_.has_head) {
    const std::vector<Matrix>& head = weights_.HeadMatrices();
    use(head);
    head_inputs_.Reserve(head, limits_.outputs, kernels::kUnevenSumOfHead);
    for (WorkerState& worker : workers_) worker.head.Reserve(head, kOwnRows, kernels::kUnevenSumOfHead);
  }
  int tiles = 0;
  if (share_.by_slice) {
    ReserveNodes();
    for (const Nodes* nodes : {&head_nodes_, &column_nodes_}) {
      for (const SummedNode& node : nodes->mine) tiles = std::max(tiles, DepthOf(node.steps));
    }
  }
  for (WorkerState& worker : workers_) {
    SKEIN_ASSIGN_OR_RETURN(worker.scratch, Buffer::Allocate(std::max<std::size_t>(scratch, 64)));
    SKEIN_RETURN_IF_ERROR(worker.normed.Reserve(1, config_.hidden));
    SKEIN_RETURN_IF_ERROR(worker.tile.Reserve(1, SwiGluSink::kScratchFloats));
    SKEIN_ASSIGN_OR_RETURN(worker.slice_tiles, Buffer::Allocate(sizeof(float) * static_cast<std::size_t>(std::max(1, tiles * SliceSums::kTileFloats))));
  }
  ReserveHeads();
  return sharded() ? ReserveShared() : OkStatus();
}

// Which queries a KV head of this share has, and where their cells are among o's inputs.
void LlamaDecoder::ReserveHeads() {
  for (int head = 0; head <= config_.kv_heads; ++head) first_query_.push_back(share_.FirstQuery(whole_, head));
  if (config_.heads == 0 || weights_.layers.empty()) return;
  const kernels::Cells& cells = weights_.layers.front().o_inputs;
  int cell = 0;
  for (const int query : first_query_) {
    const auto before = [&](const kernels::Cell& c) { return c.count == 0 || c.begin < query * config_.head_dim; };
    while (cell < cells.count() && before(cells.cells[static_cast<std::size_t>(cell)])) ++cell;
    attended_cell_.push_back(cell);
  }
}

void LlamaDecoder::ReserveNodes() {
  std::vector<Span> head_columns = share_.all_heads;
  for (Span& span : head_columns) span = {span.begin * config_.head_dim, span.end * config_.head_dim};
  head_nodes_ = NodesOf(config_.head_dim, whole_.heads * config_.head_dim, head_columns);
  column_nodes_ = NodesOf(kernels::FeedForwardSliceWidth(whole_.feed_forward), whole_.feed_forward, share_.all_columns);
}

// What is needed for sums over ranks.
Status LlamaDecoder::ReserveShared() {
  const auto rows = static_cast<std::size_t>(limits_.tokens) * static_cast<std::size_t>(config_.hidden);
  gathered_bytes_.resize(share_.all_heads.size());
  embedded_.resize(share_.embeds ? rows : 0);
  gathered_.resize(share_.embeds ? rows : 0);
  if (!share_.by_slice) {
    if (links_.overlap) courier_ = std::make_unique<Courier>(*links_.tensor);
    return partial_.Reserve(limits_.tokens, config_.hidden);
  }
  const auto nodes = static_cast<std::size_t>(std::max(head_nodes_.all, column_nodes_.all));
  SKEIN_ASSIGN_OR_RETURN(node_sums_, Buffer::Allocate(nodes * rows * sizeof(float)));
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
  for (const TokenId token : batch.tokens) SKEIN_CHECK(token >= 0 && token < whole_.vocabulary);
  for (const std::int32_t output : batch.outputs) SKEIN_CHECK(output >= 0 && output < next);
  for (const std::int32_t token : batch.hidden) SKEIN_CHECK(token >= 0 && token < next);
}

Result<std::span<const float>> LlamaDecoder::Forward(const Batch& batch) {
  CheckBatch(batch);
  SKEIN_RETURN_IF_ERROR(status_);
  if (batch.tokens.empty()) return std::span<const float>();
  batch_ = batch;
  communication_ns_ = 0;
  layout_.Build(batch, pool_.threads());
  if (phases_ != nullptr) [[unlikely]] phases_->Skip();
  pool_.Run([this](Worker& worker) { Step(worker); });
  if (phases_ != nullptr) [[unlikely]] phases_->Mark(Phase::kBarrier);  // others may have been at the head still
  rope_.SetComputed(std::max(rope_.computed(), layout_.last_position() + 1));
  SKEIN_RETURN_IF_ERROR(status_);
  if (!share_.has_head) return std::span<const float>();
  return std::span(logits_.as<const float>(), static_cast<std::size_t>(outputs()) * static_cast<std::size_t>(config_.vocabulary));
}

void LlamaDecoder::Barrier(Worker& worker, Phase phase) {
  Mark(worker, phase);
  worker.Barrier();
  Mark(worker, Phase::kBarrier);
}

void LlamaDecoder::EndPhase(Worker& worker, int counter) {
  Barrier(worker, PhaseOf(counter));
  if (worker.index() == 0) worker.ResetCounter(counter);  // others use it again behind another barrier at the earliest
}

void LlamaDecoder::Step(Worker& worker) {
  Begin(worker);
  Barrier(worker, Phase::kEmbed);
  for (int layer = 0; layer < config_.layers && !overlaps(); ++layer) {
    if (phases_ != nullptr && worker.index() == 0) [[unlikely]] phases_->EnterLayer(layer);
    AttentionBranch(worker, layer);
    FeedForwardBranch(worker, weights_.layers[static_cast<std::size_t>(layer)]);
  }
  if (overlaps()) RunOverlapped(worker);
  if (phases_ != nullptr && worker.index() == 0) [[unlikely]] phases_->EnterLayer(-1);
  if (!share_.has_head) {
    if (worker.index() == 0) Communicate([this] { return links_.pipe->Send(links_.pipe->self() + 1, ResidualBytes()); });
    return;
  }
  const auto share = worker.ShareOf(static_cast<int>(batch_.hidden.size()));
  for (int i = share.begin; i < share.end; ++i) {
    rows_.rms_norm(residual_.row(batch_.hidden[static_cast<std::size_t>(i)]), weights_.output_norm.data(), config_.norm_epsilon,
                   config_.hidden, hidden_.row(i));
  }
  if (outputs() > 0 && config_.vocabulary > 0) Head(worker);
}

// The residual that the first layer reads, and the angles of new positions.
void LlamaDecoder::Begin(Worker& worker) {
  if (share_.embeds && !sharded()) {
    Embed(worker);
  } else if (worker.index() == 0) {
    if (share_.embeds) {
      GatherEmbeddings();
    } else {
      Communicate([this] { return links_.pipe->Receive(links_.pipe->self() - 1, ResidualBytes()); });
    }
  }
  const int known = rope_.computed(), wanted = layout_.last_position() + 1;
  if (wanted <= known) return;
  const auto positions = worker.ShareOf(wanted - known);
  rope_.Compute(known + positions.begin, known + positions.end);
}

void LlamaDecoder::Embed(Worker& worker) {
  const auto share = worker.ShareOf(tokens());
  for (int token = share.begin; token < share.end; ++token) {
    weights_.embedding.front().packed.DequantizeRow(batch_.tokens[static_cast<std::size_t>(token)], residual_.row(token));
  }
}

// Each rank has the embeddings of its words: everybody sends those of its tokens to everybody.
void LlamaDecoder::GatherEmbeddings() {
  const auto width = static_cast<std::size_t>(config_.hidden);
  const auto owner_of = [this](TokenId token) {
    std::size_t rank = 0;
    while (token >= share_.all_vocabulary[rank].end) ++rank;
    return rank;
  };
  std::fill(gathered_bytes_.begin(), gathered_bytes_.end(), 0);
  float* mine = embedded_.data();
  for (const TokenId token : batch_.tokens) {
    const std::size_t owner = owner_of(token);
    gathered_bytes_[owner] += width * sizeof(float);
    if (static_cast<int>(owner) != share_.tensor_rank) continue;
    weights_.embedding.front().packed.DequantizeRow(token - share_.vocabulary.begin, mine);
    mine += width;
  }
  Communicate([&] {
    return links_.tensor->AllGather(std::as_bytes(std::span(embedded_.data(), mine)), gathered_bytes_,
                                    std::as_writable_bytes(std::span(gathered_.data(), static_cast<std::size_t>(tokens()) * width)));
  });
  std::vector<const float*>& next = next_embedding_;
  next.clear();
  const float* begin = gathered_.data();
  for (const std::size_t bytes : gathered_bytes_) {
    next.push_back(begin);
    begin += bytes / sizeof(float);
  }
  for (int token = 0; token < tokens(); ++token) {
    const float*& from = next[owner_of(batch_.tokens[static_cast<std::size_t>(token)])];
    std::copy_n(from, width, residual_.row(token));
    from += width;
  }
}

// The norm of each row of the residual (of the rows whose logits are wanted, for the head), rounded for `matrices`.
Inputs& LlamaDecoder::PrepareHidden(Worker& worker, const std::vector<float>& norm, const std::vector<Matrix>& matrices,
                                    Span rows, bool outputs_only) {
  WorkerState& state = StateOf(worker);
  const int shared_rows = (rows.size() + worker.count() - 1) / worker.count();
  const bool own = rows.size() <= kOwnRows && (rows.size() - shared_rows) * config_.hidden <= 1024;
  Inputs& shared = outputs_only ? head_inputs_ : hidden_inputs_;
  Inputs& inputs = !own ? shared : outputs_only ? state.head : state.hidden;
  const auto share = own ? Worker::Range{0, rows.size()} : worker.ShareOf(rows.size());
  for (int row = rows.begin + share.begin; row < rows.begin + share.end; ++row) {
    const int token = outputs_only ? batch_.outputs[static_cast<std::size_t>(row)] : row;
    rows_.rms_norm(residual_.row(token), norm.data(), config_.norm_epsilon, config_.hidden, state.normed.row(0));
    inputs.Prepare(rows_, matrices, state.normed.row(0), row);
  }
  if (own) {
    Mark(worker, Phase::kPrepare);
  } else {
    Barrier(worker, Phase::kPrepare);
  }
  return inputs;
}

void LlamaDecoder::AttentionBranch(Worker& worker, int layer) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  if (config_.heads > 0) {
    MultiplyQkv(worker, weights, all_rows());
    RotateAndStore(worker, layer);
    Barrier(worker, Phase::kRopeAndStore);
    AttendPart(worker, layer, all_rows());
  }
  AddToResidual(worker, kOutput, weights.o, attended_inputs_, head_nodes_, weights.o_bias);
}

void LlamaDecoder::MultiplyQkv(Worker& worker, const LayerWeights& weights, Span rows) {
  Inputs& hidden = PrepareHidden(worker, weights.attention_norm, weights.qkv, rows, /*outputs_only=*/false);
  Multiply(worker, kQkv, weights.qkv, hidden, rows,
           ColumnSink{.out = qkv_.row(0), .stride = qkv_.stride(), .bias = weights.qkv_bias.empty() ? nullptr : weights.qkv_bias.data()},
           StateOf(worker).scratch.data());
  EndPhase(worker, kQkv);
}

void LlamaDecoder::AttendPart(Worker& worker, int layer, Span part) {
  if (!layout_.split()) {
    Attend(worker, layer, part);
    EndPhase(worker, kAttention);
  } else if (part.begin == 0) {  // all of it: splits of keys are for few chunks
    AttendSplits(worker, layer);
    EndPhase(worker, kAttention);
    Fold(worker, layer);
    Barrier(worker, Phase::kAttention);
  }
}

void LlamaDecoder::RunOverlapped(Worker& worker) {
  const int middle = tokens() / 2 / kPartUnit * kPartUnit;  // of the tokens alone: ranks with other threads must cut alike
  const Span parts[2] = {{0, middle}, {middle, tokens()}};
  std::uint64_t sums[2] = {0, 0};  // worker 0's
  const std::vector<float>* bias = nullptr;
  for (int layer = 0; layer < config_.layers; ++layer) {
    const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
    if (phases_ != nullptr && worker.index() == 0) [[unlikely]] phases_->EnterLayer(layer);
    for (int i = 0; i < 2; ++i) {
      if (bias != nullptr) AwaitSum(worker, sums[i], *bias, parts[i]);
      if (config_.heads > 0) MultiplyQkv(worker, weights, parts[i]);
    }
    if (config_.heads > 0) {
      RotateAndStore(worker, layer);
      Barrier(worker, Phase::kRopeAndStore);
    }
    for (int i = 0; i < 2; ++i) {
      if (config_.heads > 0) AttendPart(worker, layer, parts[i]);
      PostPartials(worker, kOutput, weights.o, attended_inputs_, parts[i], sums[i]);
    }
    for (int i = 0; i < 2; ++i) {
      AwaitSum(worker, sums[i], weights.o_bias, parts[i]);
      if (config_.feed_forward > 0) {
        GateUp(worker, weights, parts[i]);
        EndPhase(worker, kGateUp);
      }
      PostPartials(worker, kDown, weights.down, wide_inputs_, parts[i], sums[i]);
    }
    bias = &weights.down_bias;
  }
  for (int i = 0; i < 2 && bias != nullptr; ++i) AwaitSum(worker, sums[i], *bias, parts[i]);
}

// The barrier behind it lets the next part use the same counter.
void LlamaDecoder::PostPartials(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, Span rows, std::uint64_t& sum) {
  MultiplyPartials(worker, counter, matrices, inputs, rows);
  if (worker.index() == 0) sum = courier_->Post(SumOf(rows));
  Barrier(worker, Phase::kBarrier);
}

void LlamaDecoder::AwaitSum(Worker& worker, std::uint64_t sum, const std::vector<float>& bias, Span rows) {
  if (worker.index() == 0) {
    Communicate([&] { return courier_->Wait(sum); });
    AddBias(bias, rows);
  }
  Barrier(worker, Phase::kPrepare);
}

// residual += matrices x inputs (+ bias), over the inputs of all ranks.
void LlamaDecoder::AddToResidual(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs,
                                 const Nodes& nodes, const std::vector<float>& bias) {
  if (share_.by_slice) {
    if (sharded()) return AddNodes(worker, counter, matrices, inputs, nodes, bias);
    return AddSlices(worker, counter, matrices, inputs, nodes, bias);
  }
  if (sharded()) return AddPartials(worker, counter, matrices, inputs, bias);
  Multiply(worker, counter, matrices, inputs, all_rows(),
           ResidualSink{.residual = residual_.row(0), .stride = residual_.stride(), .bias = bias.empty() ? nullptr : bias.data(),
                        .rows = &rows_},
           StateOf(worker).scratch.data());
  EndPhase(worker, counter);
}

void LlamaDecoder::MultiplyPartials(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, Span rows) {
  if (matrices.empty()) {
    const auto share = worker.ShareOf(rows.size());
    for (int row = rows.begin + share.begin; row < rows.begin + share.end; ++row) std::fill_n(partial_.row(row), config_.hidden, 0.0f);
  }
  Multiply(worker, counter, matrices, inputs, rows, ColumnSink{.out = partial_.row(0), .stride = partial_.stride()},
           StateOf(worker).scratch.data());
  EndPhase(worker, counter);
}

comm::Reduction LlamaDecoder::SumOf(Span rows) {
  return {.x = partial_.row(rows.begin),
          .out = residual_.row(rows.begin),
          .rows = rows.size(),
          .columns = config_.hidden,
          .x_stride = partial_.stride(),
          .out_stride = residual_.stride(),
          .add = true};
}

void LlamaDecoder::AddBias(const std::vector<float>& bias, Span rows) {
  for (int row = rows.begin; row < rows.end && !bias.empty(); ++row) {
    rows_.add(bias.data(), 0, 1, config_.hidden, residual_.row(row), residual_.stride());
  }
}

void LlamaDecoder::AddPartials(Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs,
                               const std::vector<float>& bias) {
  MultiplyPartials(worker, counter, matrices, inputs, all_rows());
  if (worker.index() == 0) {
    Communicate([this] { return links_.tensor->AllReduce(SumOf(all_rows())); });
    AddBias(bias, all_rows());
  }
  Barrier(worker, Phase::kPrepare);
}

void LlamaDecoder::AddSlices(Worker& worker, int counter, const std::vector<Matrix>& slices, Inputs& inputs, const Nodes& nodes,
                             const std::vector<float>& bias) {
  WorkerState& state = StateOf(worker);
  ResidualSink residual{.residual = residual_.row(0), .stride = residual_.stride(), .bias = bias.empty() ? nullptr : bias.data(),
                        .rows = &rows_, .columns = config_.hidden};
  const kernels::LinearSink sink{&ResidualSink::Take, &residual};
  SliceSums sums(rows_, state.slice_tiles.as<float>());
  ForEachPart(worker, counter, slices.front().packed.panels(), tokens(), [&](int panel_begin, int panel_end, int row_begin, int row_end) {
    sums.Run(slices, 0, nodes.mine.front(), inputs, panel_begin, panel_end, row_begin, row_end, sink,
             state.scratch.data());
  });
  EndPhase(worker, counter);
}

void LlamaDecoder::AddNodes(Worker& worker, int counter, const std::vector<Matrix>& slices, Inputs& inputs, const Nodes& nodes,
                            const std::vector<float>& bias) {
  WorkerState& state = StateOf(worker);
  const int width = config_.hidden;
  const auto node_floats = static_cast<std::size_t>(tokens()) * static_cast<std::size_t>(width);
  SliceSums sums(rows_, state.slice_tiles.as<float>());
  if (!slices.empty()) {
    ForEachPart(worker, counter, slices.front().packed.panels(), tokens(), [&](int panel_begin, int panel_end, int row_begin, int row_end) {
      for (std::size_t node = 0; node < nodes.mine.size(); ++node) {
        ColumnSink column{.out = node_sums_.as<float>() + (static_cast<std::size_t>(nodes.first) + node) * node_floats, .stride = width, .columns = width};
        sums.Run(slices, nodes.first_slice, nodes.mine[node], inputs, panel_begin, panel_end, row_begin, row_end,
                 {&ColumnSink::Take, &column}, state.scratch.data());
      }
    });
  }
  EndPhase(worker, counter);
  if (worker.index() == 0) {
    for (std::size_t rank = 0; rank < gathered_bytes_.size(); ++rank) gathered_bytes_[rank] = nodes.of_rank[rank] * node_floats * sizeof(float);
    Communicate([&] {
      const std::byte* mine = node_sums_.data() + static_cast<std::size_t>(nodes.first) * node_floats * sizeof(float);
      return links_.tensor->AllGather({mine, nodes.mine.size() * node_floats * sizeof(float)}, gathered_bytes_,
                                      {node_sums_.data(), static_cast<std::size_t>(nodes.all) * node_floats * sizeof(float)});
    });
  }
  Barrier(worker, Phase::kPrepare);
  const auto share = worker.ShareOf(tokens());
  const auto sum = [&](int node, int row) { return node_sums_.as<float>() + static_cast<std::size_t>(node) * node_floats + static_cast<std::size_t>(row * width); };
  for (int row = share.begin; row < share.end; ++row) {
    for (const Merge merge : nodes.merges) rows_.add(sum(merge.from, row), 0, 1, width, sum(merge.into, row), 0);
    if (!bias.empty()) rows_.add(bias.data(), 0, 1, width, sum(0, row), 0);
    rows_.add(sum(0, row), 0, 1, width, residual_.row(row), 0);
  }
  Barrier(worker, Phase::kPrepare);
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
      float* q = qkv_.row(quarter.first_token + i) + FirstQuery(head) * d;
      float* k = qkv_.row(quarter.first_token + i) + (config_.heads + head) * d;
      for (int g = 0; g < Group(head); ++g) rows_.rope(q + g * d, rotated, cosine, sine);
      rows_.rope(k, rotated, cosine, sine);
      attention_.store(kv_.layout(), frame, first_slot + position % kernels::kBlockTokens, k, k + kv_heads * d);
    }
  }
}

kernels::AttentionBlock LlamaDecoder::BlockOf(int layer, int kv_head, const Chunk& chunk) {
  return {.layout = kv_.layout(),
          .frames = kv_.base(layer, kv_head),
          .blocks = batch_.rows[static_cast<std::size_t>(chunk.row)].blocks.data(),
          .queries = qkv_.row(chunk.first_token) + FirstQuery(kv_head) * config_.head_dim,
          .query_stride = qkv_.stride(),
          .tokens = chunk.count,
          .group = Group(kv_head),
          .first_position = chunk.first_position,
          .scale = scale_};
}

// Rounds what a chunk's tokens got from a KV head's group: the cells of those heads.
void LlamaDecoder::PrepareAttended(const LayerWeights& layer, int kv_head, const Chunk& chunk) {
  const int column = FirstQuery(kv_head) * config_.head_dim;
  const int begin = attended_cell_[static_cast<std::size_t>(kv_head)];
  const int end = attended_cell_[static_cast<std::size_t>(kv_head) + 1];
  attended_inputs_.PrepareCells(rows_, layer.o, attended_.row(chunk.first_token) + column, attended_.stride(),
                                chunk.first_token, chunk.first_token + chunk.count, begin, end);
}

// Items are (KV head, chunk), all chunks of a head after another: they read the same keys.
void LlamaDecoder::Attend(Worker& worker, int layer, Span part) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  WorkerState& state = StateOf(worker);
  const int chunks = static_cast<int>(layout_.chunks().size());
  const auto attend = [&](int item) {
    const int head = item / chunks;
    const Chunk& chunk = layout_.chunks()[static_cast<std::size_t>(item % chunks)];
    if (chunk.first_token < part.begin || chunk.first_token >= part.end) return;
    attention_.attend(BlockOf(layer, head, chunk), attended_.row(chunk.first_token) + FirstQuery(head) * config_.head_dim,
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
    float* partials = PartialsOf(chunk, head) + split * chunk.count * Group(head) * (2 + config_.head_dim);
    attention_.attend_splits(BlockOf(layer, head, chunk), split, split + 1, partials, state.scratch.data());
  }
}

void LlamaDecoder::Fold(Worker& worker, int layer) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const auto share = worker.ShareOf(static_cast<int>(layout_.chunks().size()) * config_.kv_heads);
  for (int item = share.begin; item < share.end; ++item) {
    const Chunk& chunk = layout_.chunks()[static_cast<std::size_t>(item / config_.kv_heads)];
    const int head = item % config_.kv_heads;
    attention_.fold(BlockOf(layer, head, chunk), chunk.splits, PartialsOf(chunk, head),
                    attended_.row(chunk.first_token) + FirstQuery(head) * config_.head_dim, attended_.stride());
    PrepareAttended(weights, head, chunk);
  }
}

void LlamaDecoder::FeedForwardBranch(Worker& worker, const LayerWeights& layer) {
  if (config_.feed_forward > 0) {
    GateUp(worker, layer, all_rows());
    EndPhase(worker, kGateUp);
  }
  AddToResidual(worker, kDown, layer.down, wide_inputs_, column_nodes_, layer.down_bias);
}

void LlamaDecoder::GateUp(Worker& worker, const LayerWeights& layer, Span rows) {
  std::byte* scratch = StateOf(worker).scratch.data();
  const float* bias = layer.gate_up_bias.empty() ? nullptr : layer.gate_up_bias.data();
  Inputs& hidden = PrepareHidden(worker, layer.feed_forward_norm, layer.gate_up, rows, /*outputs_only=*/false);
  if (layer.interleaved()) {
    // Two panels make the 32 columns of one cell of down's inputs.
    const int cells = (config_.feed_forward + kernels::kCellWidth - 1) / kernels::kCellWidth;
    Multiply(worker, kGateUp, layer.gate_up, hidden, rows,
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
  Multiply(worker, kGateUp, layer.gate_up, hidden, rows,
           ColumnSink{.out = gate_up_.row(0), .stride = gate_up_.stride(), .bias = bias}, scratch);
  Barrier(worker, Phase::kGateUp);
  const auto share = worker.ShareOf(rows.size());
  const int first = rows.begin + share.begin;
  rows_.swiglu(gate_up_.row(first), gate_up_.row(first) + config_.feed_forward, gate_up_.stride(), share.end - share.begin, config_.feed_forward,
               wide_.row(first), wide_.stride());
  for (int row = first; row < rows.begin + share.end; ++row) wide_inputs_.Prepare(rows_, layer.down, wide_.row(row), row);
}

void LlamaDecoder::Head(Worker& worker) {
  const std::vector<Matrix>& head = weights_.HeadMatrices();
  Inputs& hidden = PrepareHidden(worker, weights_.output_norm, head, {0, outputs()}, /*outputs_only=*/true);
  Multiply(worker, kHead, head, hidden, Span{0, outputs()}, ColumnSink{.out = logits_.as<float>(), .stride = config_.vocabulary},
           StateOf(worker).scratch.data());
  Mark(worker, Phase::kHead);
}

}  // namespace

Result<std::unique_ptr<Decoder>> MakeLlamaDecoder(const Model& model, KvStore& kv, kernels::ThreadPool& pool,
                                                  Decoder::Limits limits, RankLinks links, PhaseClock* phases) {
  SKEIN_CHECK(limits.tokens > 0);
  SKEIN_CHECK(limits.outputs > 0);
  if (!model.AttentionArithmetic(kv.layout().type)) {
    return InvalidArgument(fmt::format("kv-dtype {}: does not go with the arithmetic {}; take {}", NameOf(kv.layout().type),
                                       NameOf(model.arithmetic()), NameOf(DefaultKvType(model.arithmetic()))),
                           "kv-dtype");
  }
  const Share& share = model.share();
  SKEIN_CHECK((links.tensor != nullptr) == (share.all_heads.size() > 1));
  SKEIN_CHECK((links.pipe != nullptr) == !(share.embeds && share.has_head));
  auto decoder = std::make_unique<LlamaDecoder>(model, kv, pool, limits, links, phases);
  SKEIN_RETURN_IF_ERROR(decoder->Reserve());
  return std::unique_ptr<Decoder>(std::move(decoder));
}

std::uint64_t LlamaScratchBytes(const ModelConfig& whole, const Share& share, const Decoder::Limits& limits, int threads,
                                std::uint32_t frames) {
  const auto number = [](int value) { return static_cast<std::uint64_t>(value); };
  const ModelConfig config = LocalConfig(whole, share);
  const std::uint64_t attended = number(config.heads * config.head_dim);
  const auto ranks = static_cast<std::uint64_t>(share.all_heads.size());
  // Of sums over ranks: a part, or some four nodes of the slice tree for each rank and their copy; and embeddings.
  const std::uint64_t shared = ranks == 1 ? 0 : (2 + (share.by_slice ? 4 * (ranks + 1) : 1)) * number(config.hidden);
  const std::uint64_t columns =
      3 * number(config.hidden) + number(QkvColumns(config)) + 3 * attended + 4 * number(config.feed_forward) + shared;
  const std::uint64_t worker = (std::uint64_t{2} << 20) + 8 * kOwnRows * number(config.hidden);
  return sizeof(float) * (number(limits.tokens) * columns + number(limits.outputs) * (number(config.vocabulary) + number(config.hidden)) + kPartialFloats) +
         RopeTable::BytesFor(config.rope.dimensions / 2, std::uint64_t{frames} * kernels::kFrameTokens) + number(threads) * worker;
}

}  // namespace skein::model
