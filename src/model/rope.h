// SPDX-License-Identifier: Apache-2.0
//
// Rotary position embedding (Su et al. 2021): the frequencies of a model's configuration, and a table of cosines and
// sines by position that every decoder keeps. Pairs are always (i, i + dimensions / 2): rows of Q and K that a file
// stores interleaved are reordered when they are packed.
//
// Thread rule: the table grows inside a parallel region, by parts that do not overlap; a barrier lies between growing and
// reading. Memory for every position is reserved when the table is made, and touched only where positions are used.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "formats/model_config.h"
#include "tensor/buffer.h"

namespace skein::model {

struct RopeFrequencies {
  std::vector<double> values;  // [dimensions / 2], radians per position
  double magnitude = 1.0;      // multiplies cosine and sine (yarn's attention factor)
};

// The same bits on every processor: logarithms and exponentials are our own.
RopeFrequencies MakeRopeFrequencies(const formats::ModelConfig& config);

class RopeTable {
 public:
  static Result<RopeTable> Create(RopeFrequencies frequencies, int positions);
  static std::uint64_t BytesFor(int pairs, std::uint64_t positions);

  int pairs() const { return pairs_; }
  // fp32 [pairs]. Requires: position < computed().
  const float* cosine(int position) const { return table_.as<float>() + std::int64_t{2} * position * pairs_; }
  const float* sine(int position) const { return cosine(position) + pairs_; }

  // Positions that are there.
  int computed() const { return computed_; }
  // Computes positions [begin, end), which lie at or behind computed().
  void Compute(int begin, int end);
  void SetComputed(int positions) { computed_ = positions; }

 private:
  RopeFrequencies frequencies_;
  int pairs_ = 0;
  int computed_ = 0;
  Buffer table_;  // fp32 [positions, 2, pairs]
};

}  // namespace skein::model
