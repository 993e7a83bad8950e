// SPDX-License-Identifier: Apache-2.0
//
// The weights of a decoder model as the forward pass reads them: packed matrices, each with the arithmetic and the kernel
// that were chosen for it, and fp32 vectors. Filled by model.cc, read by the decoders, immutable after loading.
#pragma once

#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/linear/packed_linear.h"

namespace skein::model {

// One packed matrix. Matrices that share an input stand side by side in the columns of their phase's output; tensors of
// one type are one matrix.
struct Matrix {
  kernels::PackedLinear packed;
  kernels::Arithmetic arithmetic = kernels::Arithmetic::kExact;
  kernels::LinearKernel kernel;
  int first_column = 0;  // of its outputs, in the phase's output
};

struct LayerWeights {
  std::vector<float> attention_norm;     // [hidden]
  std::vector<float> feed_forward_norm;  // [hidden]
  std::vector<Matrix> qkv;               // columns q | k | v; several when the types differ
  std::vector<Matrix> o;                 // one; or one for each slice of its inputs
  // One matrix, 16 columns of gate and the same 16 of up in every panel; or, when their types differ, gate, then up
  // from column feed_forward on.
  std::vector<Matrix> gate_up;
  std::vector<Matrix> down;              // as o
  // Of the inputs of all of o's and of all of down's matrices.
  kernels::Cells o_inputs, down_inputs;
  // Biases in the order of the phase's columns; empty: none.
  std::vector<float> qkv_bias, o_bias, gate_up_bias, down_bias;

  // Requires: there are columns.
  bool interleaved() const { return gate_up.size() == 1; }
};

struct ModelWeights {
  // All packed matrices lie here one after the other, in huge pages where they are granted.
  Buffer memory;
  // The embedding [vocabulary, hidden]; it is the head as well when `head` is empty.
  std::vector<Matrix> embedding;
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;        // [hidden]
  std::vector<Matrix> head;

  const std::vector<Matrix>& HeadMatrices() const { return head.empty() ? embedding : head; }
};

}  // namespace skein::model
