// SPDX-License-Identifier: Apache-2.0
//
// The llama family (Touvron et al. 2023 and what follows its shape): which packed matrices its tensors become. The
// forward pass is llama_decoder.cc.
//
// Slices (architecture.md §4): one per query head for o, those of FeedForwardSliceWidth for down, one elsewhere.
#include <fmt/format.h>

#include "model/arch/architecture.h"
#include "model/arch/llama_decoder.h"

namespace skein::model {
namespace {

using formats::ModelConfig;
using formats::ModelFile;
using formats::TensorInfo;

class Planner {
 public:
  Planner(const ModelFile& file, const Share& share, ModelWeights& weights)
      : file_(file), config_(file.config()), share_(share), weights_(weights) {}

  Result<WeightPlan> Make() {
    weights_.layers.resize(static_cast<std::size_t>(share_.layers.size()));
    const bool tied = file_.Find("head") == nullptr;
    const Span words = share_.vocabulary;
    const bool both = tied && share_.embeds && share_.has_head;
    if (share_.embeds) {
      SKEIN_RETURN_IF_ERROR(AddMatrices("embedding", {{"embedding", words}}, Columns(config_.hidden), weights_.embedding));
      if (!words.empty()) plan_.matrices.back().multiplied = both;
    }
    for (int layer = 0; layer < share_.layers.size(); ++layer) SKEIN_RETURN_IF_ERROR(AddLayer(layer));
    if (!share_.has_head) return std::move(plan_);
    SKEIN_RETURN_IF_ERROR(AddVector({{"output_norm", {0, config_.hidden}}}, false, weights_.output_norm));
    if (!both) {
      SKEIN_RETURN_IF_ERROR(AddMatrices("head", {{tied ? "embedding" : "head", words}}, Columns(config_.hidden), weights_.head));
    }
    return std::move(plan_);
  }

 private:
  struct Part {
    std::string tensor;
    Span rows;
    bool rotated = false;  // rows of Q or K
  };

  static kernels::SlicedCells Columns(int count) { return {.slices = {kernels::MakeCells(count, 0)}, .inputs = {}}; }

  // This rank's columns of a matrix whose inputs are cut at slices.
  kernels::SlicedCells SlicedColumns(int row_columns, int slice_width, Span columns) const {
    if (columns.empty()) return {};
    if (share_.by_slice) return kernels::MakeSlicedCells(row_columns, slice_width, columns.begin, columns.end);
    kernels::Cells cells = kernels::MakeCells(row_columns, slice_width, columns.begin, columns.end);
    return {.slices = {cells}, .inputs = cells};
  }

  Status AddLayer(int index) {
    LayerWeights& into = weights_.layers[static_cast<std::size_t>(index)];
    const std::string at = fmt::format("layers.{}.", share_.layers.begin + index);
    const int d = config_.head_dim, hidden = config_.hidden;
    const Span q{share_.heads.begin * d, share_.heads.end * d}, kv{share_.kv_heads.begin * d, share_.kv_heads.end * d};
    const Span wide = share_.columns, all{0, hidden};
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "attention_norm", all}}, false, into.attention_norm));
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "feed_forward_norm", all}}, false, into.feed_forward_norm));
    SKEIN_RETURN_IF_ERROR(
        AddMatrices(at + "qkv", {{at + "q", q, true}, {at + "k", kv, true}, {at + "v", kv}}, Columns(hidden), into.qkv));
    kernels::SlicedCells o = SlicedColumns(config_.heads * d, d, q);
    into.o_inputs = o.inputs;
    SKEIN_RETURN_IF_ERROR(AddMatrices(at + "o", {{at + "o", all}}, std::move(o), into.o));
    SKEIN_ASSIGN_OR_RETURN(const TensorInfo* gate, Need(at + "gate"));
    SKEIN_ASSIGN_OR_RETURN(const TensorInfo* up, Need(at + "up"));
    const bool interleaved = gate->dtype == up->dtype;
    SKEIN_RETURN_IF_ERROR(
        AddMatrices(at + "gate_up", {{at + "gate", wide}, {at + "up", wide}}, Columns(hidden), into.gate_up, interleaved));
    kernels::SlicedCells down = SlicedColumns(config_.feed_forward, kernels::FeedForwardSliceWidth(config_.feed_forward), wide);
    into.down_inputs = down.inputs;
    SKEIN_RETURN_IF_ERROR(AddMatrices(at + "down", {{at + "down", all}}, std::move(down), into.down));
    SKEIN_RETURN_IF_ERROR(
        AddVector({{at + "q_bias", q, true}, {at + "k_bias", kv, true}, {at + "v_bias", kv}}, false, into.qkv_bias));
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "o_bias", all}}, false, into.o_bias));
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "gate_bias", wide}, {at + "up_bias", wide}}, interleaved, into.gate_up_bias));
    return AddVector({{at + "down_bias", all}}, false, into.down_bias);
  }

  Result<const TensorInfo*> Need(const std::string& name) const {
    if (const TensorInfo* tensor = file_.Find(name)) return tensor;
    return InvalidFile(fmt::format("expected a tensor for {}, found none", name), name);
  }

  RowSource SourceOf(const TensorInfo* tensor, const Part& part) const {
    RowSource source{tensor, part.rows.size(), 0, 0, part.rows.begin};
    if (part.rotated && config_.interleaved_rope_rows) {
      source.head_dim = config_.head_dim;
      source.rotated = config_.rope.dimensions;
    }
    return source;
  }

  // Tensors that share an input; neighbours of one type become one matrix. Nothing where this rank has no row or no column.
  Status AddMatrices(const std::string& name, const std::vector<Part>& parts, kernels::SlicedCells columns,
                     std::vector<Matrix>& into, bool interleaved = false) {
    int first_column = 0;
    bool open = false;
    for (const Part& part : parts) {
      SKEIN_ASSIGN_OR_RETURN(const TensorInfo* tensor, Need(part.tensor));
      if (part.rows.empty() || columns.slices.empty()) continue;
      if (!open || plan_.matrices.back().dtype != tensor->dtype) {
        MatrixPlan matrix;
        matrix.name = name;
        matrix.rows.interleaved = interleaved;
        matrix.dtype = tensor->dtype;
        matrix.format = kernels::PackedFormatOf(tensor->dtype);
        matrix.slices = columns.slices;
        matrix.first_column = first_column;
        matrix.into = &into;
        plan_.matrices.push_back(std::move(matrix));
        open = true;
      }
      plan_.matrices.back().rows.sources.push_back(SourceOf(tensor, part));
      first_column += part.rows.size();
    }
    return OkStatus();
  }

  // Vectors side by side; one that the file has not is zeros, and when it has none of them the vector stays empty.
  Status AddVector(const std::vector<Part>& parts, bool interleaved, std::vector<float>& into) {
    VectorPlan vector;
    vector.rows.interleaved = interleaved;
    vector.into = &into;
    bool any = false;
    for (const Part& part : parts) {
      const TensorInfo* tensor = file_.Find(part.tensor);
      any = any || tensor != nullptr;
      vector.rows.sources.push_back(SourceOf(tensor, part));
    }
    if (any && vector.rows.outputs() > 0) plan_.vectors.push_back(std::move(vector));
    return OkStatus();
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  const Share& share_;
  ModelWeights& weights_;
  WeightPlan plan_;
};

Result<WeightPlan> PlanLlama(const ModelFile& file, const Share& share, ModelWeights& weights) {
  return Planner(file, share, weights).Make();
}

}  // namespace

const Architecture& LlamaArchitecture() {
  static constexpr Architecture kLlama = {
      .name = "llama",
      .plan_weights = PlanLlama,
      .scratch_bytes = LlamaScratchBytes,
      .make_decoder = MakeLlamaDecoder,
  };
  return kLlama;
}

}  // namespace skein::model
