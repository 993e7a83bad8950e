// SPDX-License-Identifier: Apache-2.0
//
// The table of linear kernels and the choice among them. Feature checks stand here and in cpu.cc only.
#include "kernels/linear/linear.h"

#include "base/check.h"
#include "kernels/cpu.h"
#include "kernels/linear/linear_amx.h"
#include "kernels/linear/linear_ref.h"
#include "kernels/linear/linear_task.h"
#include "kernels/linear/linear_vector.h"

namespace skein::kernels {
namespace {

// Turns the owners into raw pointers and calls `function`.
template <LinearFunction function>
void Run(const PackedLinear& weights, int panel_begin, int panel_end, const Activations& input, int row_begin,
         int row_end, const LinearSink& sink, std::byte* scratch) {
  SKEIN_DCHECK(panel_begin >= 0 && panel_end <= weights.panels());
  SKEIN_DCHECK(row_begin >= 0 && row_end <= input.rows());
  if (panel_begin >= panel_end || row_begin >= row_end) return;
  LinearTask task;
  task.panels = weights.panel(0);
  task.panel_stride = weights.panel_stride();
  task.format = weights.format();
  task.cells = weights.cells().count();
  task.panel_begin = panel_begin;
  task.panel_end = panel_end;
  task.row_begin = row_begin;
  task.row_end = row_end;
  const int first_cell = weights.cells().first_cell;
  SKEIN_DCHECK(first_cell + task.cells <= input.cells().count());
  task.values = reinterpret_cast<const std::byte*>(input.q(0)) + first_cell * input.cell_bytes();
  task.value_stride = input.value_stride_bytes();
  if (input.arithmetic() == Arithmetic::kInt8G32) {
    task.scales = input.scale(0) + first_cell;
    task.scaled_sums = input.scaled_sum(0) + first_cell;
    task.sums = input.sum(0) + first_cell;
    task.scale_stride = input.rows() > 1 ? input.scale(1) - input.scale(0) : 0;
    task.uneven = input.uneven(0) + first_cell;
    task.uneven_stride = input.uneven_stride();
    task.residuals = input.residual(0) + first_cell * input.cell_bytes();
    task.residual_sums = input.residual_sum(0) + first_cell;
  }
  task.ask_ahead = Cpu().prefetch_pays;
  task.take = sink.take;
  task.context = sink.context;
  task.scratch = scratch;
  function(task);
}

std::size_t NoScratch(const Cells&) { return 0; }
std::size_t VectorScratch(const Cells&) { return kVectorScratchBytes; }
std::size_t AmxScratch(const Cells&) { return LinearAmxScratchBytes(); }

struct Entry {
  std::string_view name;
  KernelPath path;
  WeightFormat format;
  Arithmetic arithmetic;
  decltype(LinearKernel::run) run;
  decltype(LinearKernel::scratch_bytes) scratch_bytes = NoScratch;
  bool needs_bf16 = false;  // the instruction vdpbf16ps
};

// Whether the processor has what a kernel needs beyond its path.
bool Runs(const Entry& entry) { return !entry.needs_bf16 || Cpu().avx512_bf16; }
// Whether it is to be chosen there: a slow vdpbf16ps takes longer than the two FMAs that it stands for.
bool Pays(const Entry& entry) { return !entry.needs_bf16 || Cpu().fast_bf16_dot; }

using enum WeightFormat;
using enum Arithmetic;
using enum KernelPath;

// Among kernels of one path the first that pays on the processor is taken.
constexpr Entry kKernels[] = {
    {"amx/bf16t/w4", kAmx, kW4, kBf16T, Run<LinearAmxBf16TW4>, AmxScratch},
    {"amx/bf16t/w4min", kAmx, kW4Min, kBf16T, Run<LinearAmxBf16TW4Min>, AmxScratch},
    {"amx/bf16t/w8", kAmx, kW8, kBf16T, Run<LinearAmxBf16TW8>, AmxScratch},
    {"amx/bf16t/bf16", kAmx, kBf16, kBf16T, Run<LinearAmxBf16TBf16>, AmxScratch},
    {"avx512vnni/bf16p/w4", kAvx512Vnni, kW4, kBf16P, Run<LinearAvx512Bf16P<kW4>>, VectorScratch, true},
    {"avx512vnni/bf16p/w4min", kAvx512Vnni, kW4Min, kBf16P, Run<LinearAvx512Bf16P<kW4Min>>, VectorScratch, true},
    {"avx512vnni/bf16p/w8", kAvx512Vnni, kW8, kBf16P, Run<LinearAvx512Bf16P<kW8>>, VectorScratch, true},
    {"avx512vnni/bf16p/bf16", kAvx512Vnni, kBf16, kBf16P, Run<LinearAvx512Bf16P<kBf16>>, VectorScratch, true},
    {"avx512vnni/int8g32/w4", kAvx512Vnni, kW4, kInt8G32, Run<LinearVnniInt8G32<kW4>>, VectorScratch},
    {"avx512vnni/int8g32/w4min", kAvx512Vnni, kW4Min, kInt8G32, Run<LinearVnniInt8G32<kW4Min>>, VectorScratch},
    {"avx512vnni/int8g32/w8", kAvx512Vnni, kW8, kInt8G32, Run<LinearVnniInt8G32<kW8>>, VectorScratch},
    {"avx512vnni/bf16t/w4", kAvx512Vnni, kW4, kBf16T, Run<LinearAvx512<kW4, kBf16T>>, VectorScratch},
    {"avx512vnni/bf16t/w4min", kAvx512Vnni, kW4Min, kBf16T, Run<LinearAvx512<kW4Min, kBf16T>>, VectorScratch},
    {"avx512vnni/bf16t/w8", kAvx512Vnni, kW8, kBf16T, Run<LinearAvx512<kW8, kBf16T>>, VectorScratch},
    {"avx512vnni/bf16t/bf16", kAvx512Vnni, kBf16, kBf16T, Run<LinearAvx512<kBf16, kBf16T>>, VectorScratch},
    {"avx512vnni/bf16p-fma/w4", kAvx512Vnni, kW4, kBf16P, Run<LinearAvx512<kW4, kBf16P>>, VectorScratch},
    {"avx512vnni/bf16p-fma/w4min", kAvx512Vnni, kW4Min, kBf16P, Run<LinearAvx512<kW4Min, kBf16P>>, VectorScratch},
    {"avx512vnni/bf16p-fma/w8", kAvx512Vnni, kW8, kBf16P, Run<LinearAvx512<kW8, kBf16P>>, VectorScratch},
    {"avx512vnni/bf16p-fma/bf16", kAvx512Vnni, kBf16, kBf16P, Run<LinearAvx512<kBf16, kBf16P>>, VectorScratch},
    {"avx512vnni/exact/w4", kAvx512Vnni, kW4, kExact, Run<LinearAvx512<kW4, kExact>>, VectorScratch},
    {"avx512vnni/exact/w4min", kAvx512Vnni, kW4Min, kExact, Run<LinearAvx512<kW4Min, kExact>>, VectorScratch},
    {"avx512vnni/exact/w8", kAvx512Vnni, kW8, kExact, Run<LinearAvx512<kW8, kExact>>, VectorScratch},
    {"avx512vnni/exact/bf16", kAvx512Vnni, kBf16, kExact, Run<LinearAvx512<kBf16, kExact>>, VectorScratch},
    {"avx512vnni/exact/f32", kAvx512Vnni, kF32, kExact, Run<LinearAvx512<kF32, kExact>>, VectorScratch},
    {"avx2/int8g32/w4", kAvx2, kW4, kInt8G32, Run<LinearAvx2Int8G32<kW4>>, VectorScratch},
    {"avx2/int8g32/w4min", kAvx2, kW4Min, kInt8G32, Run<LinearAvx2Int8G32<kW4Min>>, VectorScratch},
    {"avx2/int8g32/w8", kAvx2, kW8, kInt8G32, Run<LinearAvx2Int8G32<kW8>>, VectorScratch},
    {"avx2/bf16t/w4", kAvx2, kW4, kBf16T, Run<LinearAvx2<kW4, kBf16T>>, VectorScratch},
    {"avx2/bf16t/w4min", kAvx2, kW4Min, kBf16T, Run<LinearAvx2<kW4Min, kBf16T>>, VectorScratch},
    {"avx2/bf16t/w8", kAvx2, kW8, kBf16T, Run<LinearAvx2<kW8, kBf16T>>, VectorScratch},
    {"avx2/bf16t/bf16", kAvx2, kBf16, kBf16T, Run<LinearAvx2<kBf16, kBf16T>>, VectorScratch},
    {"avx2/bf16p/w4", kAvx2, kW4, kBf16P, Run<LinearAvx2<kW4, kBf16P>>, VectorScratch},
    {"avx2/bf16p/w4min", kAvx2, kW4Min, kBf16P, Run<LinearAvx2<kW4Min, kBf16P>>, VectorScratch},
    {"avx2/bf16p/w8", kAvx2, kW8, kBf16P, Run<LinearAvx2<kW8, kBf16P>>, VectorScratch},
    {"avx2/bf16p/bf16", kAvx2, kBf16, kBf16P, Run<LinearAvx2<kBf16, kBf16P>>, VectorScratch},
    {"avx2/exact/w4", kAvx2, kW4, kExact, Run<LinearAvx2<kW4, kExact>>, VectorScratch},
    {"avx2/exact/w4min", kAvx2, kW4Min, kExact, Run<LinearAvx2<kW4Min, kExact>>, VectorScratch},
    {"avx2/exact/w8", kAvx2, kW8, kExact, Run<LinearAvx2<kW8, kExact>>, VectorScratch},
    {"avx2/exact/bf16", kAvx2, kBf16, kExact, Run<LinearAvx2<kBf16, kExact>>, VectorScratch},
    {"avx2/exact/f32", kAvx2, kF32, kExact, Run<LinearAvx2<kF32, kExact>>, VectorScratch},
    {"ref/int8g32/w4", kRef, kW4, kInt8G32, Run<LinearRefInt8G32>},
    {"ref/int8g32/w4min", kRef, kW4Min, kInt8G32, Run<LinearRefInt8G32>},
    {"ref/int8g32/w8", kRef, kW8, kInt8G32, Run<LinearRefInt8G32>},
    {"ref/bf16t/w4", kRef, kW4, kBf16T, Run<LinearRefBf16T>},
    {"ref/bf16t/w4min", kRef, kW4Min, kBf16T, Run<LinearRefBf16T>},
    {"ref/bf16t/w8", kRef, kW8, kBf16T, Run<LinearRefBf16T>},
    {"ref/bf16t/bf16", kRef, kBf16, kBf16T, Run<LinearRefBf16T>},
    {"ref/bf16p/w4", kRef, kW4, kBf16P, Run<LinearRefBf16P>},
    {"ref/bf16p/w4min", kRef, kW4Min, kBf16P, Run<LinearRefBf16P>},
    {"ref/bf16p/w8", kRef, kW8, kBf16P, Run<LinearRefBf16P>},
    {"ref/bf16p/bf16", kRef, kBf16, kBf16P, Run<LinearRefBf16P>},
    {"ref/exact/w4", kRef, kW4, kExact, Run<LinearRefExact>},
    {"ref/exact/w4min", kRef, kW4Min, kExact, Run<LinearRefExact>},
    {"ref/exact/w8", kRef, kW8, kExact, Run<LinearRefExact>},
    {"ref/exact/bf16", kRef, kBf16, kExact, Run<LinearRefExact>},
    {"ref/exact/f32", kRef, kF32, kExact, Run<LinearRefExact>},
};

}  // namespace

LinearKernel SelectLinear(KernelPath path, WeightFormat format, Arithmetic arithmetic) {
  SKEIN_CHECK(HasArithmetic(format, arithmetic));
  const Entry* best = nullptr;
  for (const Entry& entry : kKernels) {
    if (!Pays(entry)) continue;
    if (entry.path > path || entry.format != format || entry.arithmetic != arithmetic) continue;
    if (best == nullptr || entry.path > best->path) best = &entry;
  }
  SKEIN_CHECK(best != nullptr);
  return {best->name, best->run, best->scratch_bytes};
}

std::vector<LinearKernel> RunnableLinear(KernelPath path, WeightFormat format, Arithmetic arithmetic) {
  std::vector<LinearKernel> kernels;
  for (const Entry& entry : kKernels) {
    if (entry.path != path || entry.format != format || entry.arithmetic != arithmetic || !Runs(entry)) continue;
    kernels.push_back({entry.name, entry.run, entry.scratch_bytes});
  }
  return kernels;
}

}  // namespace skein::kernels
