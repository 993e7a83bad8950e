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
  Planner(const ModelFile& file, ModelWeights& weights) : file_(file), config_(file.config()), weights_(weights) {}

  Result<WeightPlan> Make() {
    weights_.layers.resize(static_cast<std::size_t>(config_.layers));
    const bool tied = file_.Find("head") == nullptr;
    SKEIN_RETURN_IF_ERROR(AddMatrices("embedding", {{"embedding", config_.vocabulary}}, config_.hidden, 0, weights_.embedding));
    plan_.matrices.back().multiplied = tied;
    for (int layer = 0; layer < config_.layers; ++layer) SKEIN_RETURN_IF_ERROR(AddLayer(layer));
    SKEIN_RETURN_IF_ERROR(AddVector({{"output_norm", config_.hidden}}, false, weights_.output_norm));
    if (!tied) SKEIN_RETURN_IF_ERROR(AddMatrices("head", {{"head", config_.vocabulary}}, config_.hidden, 0, weights_.head));
    return std::move(plan_);
  }

 private:
  struct Part {
    std::string tensor;
    int rows = 0;
    bool rotated = false;  // rows of Q or K
  };

  Status AddLayer(int layer) {
    LayerWeights& into = weights_.layers[static_cast<std::size_t>(layer)];
    const std::string at = fmt::format("layers.{}.", layer);
    const int q = config_.heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim;
    const int hidden = config_.hidden, wide = config_.feed_forward;
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "attention_norm", hidden}}, false, into.attention_norm));
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "feed_forward_norm", hidden}}, false, into.feed_forward_norm));
    SKEIN_RETURN_IF_ERROR(
        AddMatrices(at + "qkv", {{at + "q", q, true}, {at + "k", kv, true}, {at + "v", kv}}, hidden, 0, into.qkv));
    SKEIN_RETURN_IF_ERROR(AddMatrices(at + "o", {{at + "o", hidden}}, q, config_.head_dim, into.o));
    SKEIN_ASSIGN_OR_RETURN(const TensorInfo* gate, Need(at + "gate"));
    SKEIN_ASSIGN_OR_RETURN(const TensorInfo* up, Need(at + "up"));
    const bool interleaved = gate->dtype == up->dtype;
    SKEIN_RETURN_IF_ERROR(
        AddMatrices(at + "gate_up", {{at + "gate", wide}, {at + "up", wide}}, hidden, 0, into.gate_up, interleaved));
    SKEIN_RETURN_IF_ERROR(
        AddMatrices(at + "down", {{at + "down", hidden}}, wide, kernels::FeedForwardSliceWidth(wide), into.down));
    SKEIN_RETURN_IF_ERROR(
        AddVector({{at + "q_bias", q, true}, {at + "k_bias", kv, true}, {at + "v_bias", kv}}, false, into.qkv_bias));
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "o_bias", hidden}}, false, into.o_bias));
    SKEIN_RETURN_IF_ERROR(AddVector({{at + "gate_bias", wide}, {at + "up_bias", wide}}, interleaved, into.gate_up_bias));
    return AddVector({{at + "down_bias", hidden}}, false, into.down_bias);
  }

  Result<const TensorInfo*> Need(const std::string& name) const {
    if (const TensorInfo* tensor = file_.Find(name)) return tensor;
    return InvalidFile(fmt::format("expected a tensor for {}, found none", name), name);
  }

  RowSource SourceOf(const TensorInfo* tensor, const Part& part) const {
    RowSource source{tensor, part.rows, 0, 0};
    if (part.rotated && config_.interleaved_rope_rows) {
      source.head_dim = config_.head_dim;
      source.rotated = config_.rope.dimensions;
    }
    return source;
  }

  // Tensors that share an input; neighbours of one type become one matrix.
  Status AddMatrices(const std::string& name, const std::vector<Part>& parts, int columns, int slice_width,
                     std::vector<Matrix>& into, bool interleaved = false) {
    int first_column = 0;
    bool open = false;
    for (const Part& part : parts) {
      SKEIN_ASSIGN_OR_RETURN(const TensorInfo* tensor, Need(part.tensor));
      if (!open || plan_.matrices.back().dtype != tensor->dtype) {
        MatrixPlan matrix;
        matrix.name = name;
        matrix.rows.interleaved = interleaved;
        matrix.dtype = tensor->dtype;
        matrix.format = kernels::PackedFormatOf(tensor->dtype);
        matrix.cells = kernels::MakeCells(columns, slice_width);
        matrix.first_column = first_column;
        matrix.into = &into;
        plan_.matrices.push_back(std::move(matrix));
        open = true;
      }
      plan_.matrices.back().rows.sources.push_back(SourceOf(tensor, part));
      first_column += part.rows;
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
    if (any) plan_.vectors.push_back(std::move(vector));
    return OkStatus();
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  ModelWeights& weights_;
  WeightPlan plan_;
};

Result<WeightPlan> PlanLlama(const ModelFile& file, ModelWeights& weights) { return Planner(file, weights).Make(); }

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
