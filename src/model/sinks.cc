// SPDX-License-Identifier: Apache-2.0
#include "model/sinks.h"

#include <algorithm>
#include <cstring>

#include "kernels/linear/packed_linear.h"

namespace skein::model {
namespace {

using kernels::kPanelWidth;
constexpr int kHalf = kPanelWidth / 2;

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
    sink.rows->add(tile, kPanelWidth, rows, count, out, sink.stride);
    return;
  }
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < count; ++c) out[r * sink.stride + c] += tile[r * kPanelWidth + c] + sink.bias[begin + c];
  }
}

void SwiGluSink::Take(void* context, int panel, int row, int rows, const float* tile) {
  const auto& sink = *static_cast<const SwiGluSink*>(context);
  float* out = sink.out + row * sink.stride + panel * kHalf;
  if (sink.bias != nullptr) {
    const float* bias = sink.bias + panel * kPanelWidth;
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < kPanelWidth; ++c) sink.scratch[r * kPanelWidth + c] = tile[r * kPanelWidth + c] + bias[c];
    }
    tile = sink.scratch;
  }
  sink.rows->swiglu(tile, tile + kHalf, kPanelWidth, rows, kHalf, out, sink.stride);
}

}  // namespace skein::model
