// SPDX-License-Identifier: Apache-2.0
//
// TinyModel is a model of random weights in memory, for tests: a ModelFile like any other, and the same weights in double
// precision with a forward pass in plain loops that shares no code with the decoder. Tests only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "formats/model_file.h"

namespace skein::model {

struct TinyShape {
  int layers = 2, hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, feed_forward = 96, vocabulary = 80;
  int rotated = 0;  // rows of a head that are rotated; 0: all
  DType matrices = DType::kF32;
  DType v_matrix = DType::kF32, up_matrix = DType::kF32;  // when `mixed`
  bool mixed = false;        // v and up have types of their own
  bool tied = false;
  bool biases = false;
  bool interleaved = false;  // rows of Q and K as GGUF has them
  std::uint64_t seed = 1;
};

class TinyModel final : public formats::ModelFile {
 public:
  explicit TinyModel(const TinyShape& shape);
  ~TinyModel() override;

  // Logits [tokens, vocabulary] of the whole sequence.
  std::vector<double> Forward(const std::vector<TokenId>& tokens) const;
  const std::vector<double>& values(const std::string& name) const { return values_.at(name); }

 private:
  struct Random {
    std::uint64_t state;
    std::uint32_t Next();
    double Uniform(double low, double high);
  };

  void Add(const std::string& name, int rows, int columns, DType type, double size, Random& random);
  std::vector<double> Multiply(const std::string& name, const std::vector<double>& x, int outputs) const;
  std::vector<double> Norm(const std::string& name, const std::vector<double>& x) const;
  void AddBias(const std::string& name, std::vector<double>& x) const;
  void Rotate(std::vector<double>& heads, int count, int position) const;

  std::map<std::string, std::vector<double>> values_;
  std::vector<std::byte> bytes_;
};

// `count` different blocks of `total`, in an order of chance: tables as a busy pool hands them out.
std::vector<BlockId> ScatteredBlocks(std::uint32_t count, std::uint32_t total);

}  // namespace skein::model
