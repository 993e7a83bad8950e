// SPDX-License-Identifier: Apache-2.0
#include "model/sinks.h"

#include <algorithm>
#include <cstring>

#include "kernels/linear/packed_linear.h"

namespace skein::model {
namespace {

using kernels::kPanelWidth;
constexpr int kHalf = kPanelWidth / 2;
constexpr int kTileRows = 64;  // at most, says linear.h

}  // namespace

void ColumnSink::Take(void* context, int panel, int row, int rows, const float* tile) {
  const auto& sink = *static_cast<const ColumnSink*>(context);
  const int begin = panel * kPanelWidth;
  const int count = std::min(kPanelWidth, sink.columns - begin);
  float* out = sink.out + row * sink.stride + sink.first_column + begin;
  if (sink.bias == nullptr && count == kPanelWidth) {
    for (int r = 0; r < rows; ++r) std::memcpy(out + r * sink.stride, tile + r * kPanelWidth, kPanelWidth * sizeof(float));
    return;
  }
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < count; ++c) {
      const float bias = sink.bias == nullptr ? 0.0f : sink.bias[sink.first_column + begin + c];
      out[r * sink.stride + c] = tile[r * kPanelWidth + c] + bias;
    }
  }
}

void ResidualSink::Take(void* context, int panel, int row, int rows, const float* tile) {
  const auto& sink = *static_cast<const ResidualSink*>(context);
  const int begin = panel * kPanelWidth;
  const int count = std::min(kPanelWidth, sink.columns - begin);
  float* out = sink.residual + row * sink.stride + begin;
  if (sink.bias == nullptr) {
    for (int r = 0; r < rows; ++r) sink.rows->add(tile + r * kPanelWidth, count, out + r * sink.stride);
    return;
  }
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < count; ++c) out[r * sink.stride + c] += tile[r * kPanelWidth + c] + sink.bias[begin + c];
  }
}

void SwiGluSink::Take(void* context, int panel, int row, int rows, const float* tile) {
  const auto& sink = *static_cast<const SwiGluSink*>(context);
  float* out = sink.out + row * sink.stride + panel * kHalf;
  const float* bias = sink.bias == nullptr ? nullptr : sink.bias + panel * kPanelWidth;
  if (rows == 1 && bias == nullptr) {
    sink.rows->swiglu(tile, tile + kHalf, kHalf, out);
    return;
  }
  // Gate and up of all rows apart, so that one call does them all.
  float* gate = sink.scratch;
  float* up = sink.scratch + kTileRows * kHalf;
  for (int r = 0; r < rows; ++r) {
    std::memcpy(gate + r * kHalf, tile + r * kPanelWidth, kHalf * sizeof(float));
    std::memcpy(up + r * kHalf, tile + r * kPanelWidth + kHalf, kHalf * sizeof(float));
    for (int c = 0; bias != nullptr && c < kHalf; ++c) {
      gate[r * kHalf + c] += bias[c];
      up[r * kHalf + c] += bias[kHalf + c];
    }
  }
  sink.rows->swiglu(gate, up, rows * kHalf, gate);
  for (int r = 0; r < rows; ++r) std::memcpy(out + r * sink.stride, gate + r * kHalf, kHalf * sizeof(float));
}

}  // namespace skein::model
