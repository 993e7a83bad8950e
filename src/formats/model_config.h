// SPDX-License-Identifier: Apache-2.0
//
// ModelConfig is what a model file says about the model's shape, whatever the file's format. It is filled by
// formats/gguf_model.cc and formats/hf_model.cc, checked there against the tensors, and read by model/.
//
// A ModelConfig that a reader returned is sound: every count is positive and small enough that products of any three
// of them fit 64 bits, heads are a multiple of kv_heads, epsilon and bases are finite and positive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace skein::formats {

enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };

struct RopeConfig {
  double base = 10000.0;
  int dimensions = 0;  // of each head that are rotated; the rest passes
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  int original_context = 0;          // llama3 and yarn
  double low_frequency_factor = 1;   // llama3
  double high_frequency_factor = 4;  // llama3
  double attention_factor = 0;       // yarn; 0: computed from factor
  double beta_fast = 32;             // yarn
  double beta_slow = 1;              // yarn
  // Divides each frequency when not empty, [dimensions / 2]: GGUF stores llama3 scaling so (rope_freqs.weight).
  std::vector<float> frequency_divisors;
};

struct ModelConfig {
  std::string name;          // for people: general.name or the folder's name
  std::string architecture;  // "llama"
  int layers = 0;
  int hidden = 0;        // width of the residual
  int heads = 0;         // query heads
  int kv_heads = 0;
  int head_dim = 0;
  int feed_forward = 0;
  int vocabulary = 0;
  int context = 0;       // longest that the model was made for
  float norm_epsilon = 1e-5f;
  bool tied_embedding = false;      // the head is the embedding
  bool attention_bias = false;      // q, k, v and o have biases
  bool mlp_bias = false;
  bool interleaved_rope_rows = false;  // Q and K rows stand as (0, d/2, 1, d/2+1, …) per head: GGUF's llama convention
  RopeConfig rope;
  TokenId bos = -1;              // -1: none
  std::vector<TokenId> eos;      // any of them ends an answer
  std::uint64_t parameters = 0;  // elements of all tensors
  std::string weight_format;     // the format that most weights have: "Q4_1"
};

}  // namespace skein::formats
