// SPDX-License-Identifier: Apache-2.0
//
// The two separate choices about numbers. An Arithmetic says what is rounded where and in which order fp32 sums are
// taken; it decides the bits of a result. A KernelPath says with which instructions that is computed; it decides the
// speed only: every path gives an arithmetic's bits, for any number of rows (docs/numerics.md defines them).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace skein::kernels {

enum class Arithmetic {
  kInt8G32,  // int8 activations with a scale per cell of 32, exact integer sums, exact weight scales
  kBf16T,    // bf16 activations and weights, summed as the tile instruction tdpbf16ps sums
  kBf16P,    // bf16 activations and weights, summed as the vector instruction vdpbf16ps sums
  kExact,    // fp32 activations, weights as stored, one chain of FMAs over K
};

enum class KernelPath { kRef, kAvx2, kAvx512Vnni, kAmx };

// How a matrix is packed (linear/packed_linear.h). F16 is widened to F32.
enum class WeightFormat { kW4, kW4Min, kW8, kBf16, kF32 };

std::string_view NameOf(Arithmetic arithmetic);  // "int8g32", "bf16t", "bf16p", "exact"
std::string_view NameOf(KernelPath path);        // "ref", "avx2", "avx512vnni", "amx"
std::string_view NameOf(WeightFormat format);
std::optional<Arithmetic> ArithmeticFromName(std::string_view name);
std::optional<KernelPath> KernelPathFromName(std::string_view name);

// The paths that this processor can run, best first, `ref` last. Asks the kernel for AMX tiles where there are any.
std::vector<KernelPath> AvailablePaths();

// Whether a weight format has an arithmetic: quantised ones have all four, BF16 has bf16t, bf16p and exact, F32 only exact.
bool HasArithmetic(WeightFormat format, Arithmetic arithmetic);

// What `auto` means for weights of a format on a machine whose best path is `best`: on AMX bf16t for quantised and BF16
// weights, elsewhere int8g32 and bf16p; exact for F32. Depends on the machine, not on --kernels.
Arithmetic DefaultArithmetic(WeightFormat format, KernelPath best);

// int8g32: a cell whose int8 numbers have magnitudes that sum up to no more is *uneven*, and has a second int8 number for
// each, of so much of a step. A few of a hundred cells of real models are, and hold nearly all of the error of rounding to
// int8 (docs/numerics.md). The head's inputs become logits without anything behind them that would even errors out: more of their
// cells have one.
inline constexpr int kUnevenSum = 380;
inline constexpr int kUnevenSumOfHead = 480;
inline constexpr float kResidualStep = 1.0f / 256.0f;

}  // namespace skein::kernels
