// SPDX-License-Identifier: Apache-2.0
#include "kernels/arithmetic.h"

#include <array>

#include "kernels/cpu.h"

namespace skein::kernels {
namespace {

constexpr std::array<std::string_view, 4> kArithmeticNames = {"int8g32", "bf16t", "bf16p", "exact"};
constexpr std::array<std::string_view, 4> kPathNames = {"ref", "avx2", "avx512vnni", "amx"};
constexpr std::array<std::string_view, 5> kFormatNames = {"w4", "w4min", "w8", "bf16", "f32"};

template <typename T, std::size_t count>
std::optional<T> FromName(const std::array<std::string_view, count>& names, std::string_view name) {
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i] == name) return static_cast<T>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view NameOf(Arithmetic arithmetic) { return kArithmeticNames[static_cast<std::size_t>(arithmetic)]; }
std::string_view NameOf(KernelPath path) { return kPathNames[static_cast<std::size_t>(path)]; }
std::string_view NameOf(WeightFormat format) { return kFormatNames[static_cast<std::size_t>(format)]; }

std::optional<Arithmetic> ArithmeticFromName(std::string_view name) {
  return FromName<Arithmetic>(kArithmeticNames, name);
}
std::optional<KernelPath> KernelPathFromName(std::string_view name) { return FromName<KernelPath>(kPathNames, name); }

std::vector<KernelPath> AvailablePaths() {
  const CpuFeatures& cpu = Cpu();
  std::vector<KernelPath> paths;
  if (cpu.amx) paths.push_back(KernelPath::kAmx);
  if (cpu.avx512) paths.push_back(KernelPath::kAvx512Vnni);
  if (cpu.avx2) paths.push_back(KernelPath::kAvx2);
  paths.push_back(KernelPath::kRef);
  return paths;
}

bool HasArithmetic(WeightFormat format, Arithmetic arithmetic) {
  switch (format) {
    case WeightFormat::kW4:
    case WeightFormat::kW4Min:
    case WeightFormat::kW8:
      return true;
    case WeightFormat::kBf16:
      return arithmetic != Arithmetic::kInt8G32;
    case WeightFormat::kF32:
      return arithmetic == Arithmetic::kExact;
  }
  return false;
}

Arithmetic DefaultArithmetic(WeightFormat format, KernelPath best) {
  if (format == WeightFormat::kF32) return Arithmetic::kExact;
  if (best == KernelPath::kAmx) return Arithmetic::kBf16T;
  return format == WeightFormat::kBf16 ? Arithmetic::kBf16P : Arithmetic::kInt8G32;
}

}  // namespace skein::kernels
