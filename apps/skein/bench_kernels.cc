// SPDX-License-Identifier: Apache-2.0
//
// skein bench kernels: what this machine can do at most, and how near the kernels come.
#include <fmt/format.h>

#include <charconv>

#include "api/machine.h"
#include "base/json_writer.h"
#include "bench_kernels_measure.h"
#include "commands.h"
#include "help.h"

namespace skein::app {
namespace {

// "2048x8192": columns and rows.
bool ParseShape(const std::string& text, int& k, int& outputs) {
  const std::size_t by = text.find('x');
  if (by == std::string::npos) return false;
  const auto parse = [](std::string_view word, int& value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() && value >= 32 && value <= 65536 && value % 32 == 0;
  };
  return parse(std::string_view(text).substr(0, by), k) && parse(std::string_view(text).substr(by + 1), outputs);
}

std::string JsonOf(const BenchKernelsOptions& options, int threads, kernels::KernelPath path, const Ceilings& ceilings,
                   const std::vector<KernelRate>& rates) {
  JsonWriter json;
  json.BeginObject().Member("threads", threads).Member("kernels", NameOf(path)).Member("shape", options.shape);
  json.Member("build_commit", BuildCommit()).Key("ceilings").BeginArray();
  for (const ComputeRate& rate : ceilings.compute) {
    json.BeginObject().Member("name", rate.name).Member("instruction", rate.instruction);
    json.Member("one_thread_per_s", rate.one_thread).Member("per_s", rate.all).Member("unit", "operations").EndObject();
  }
  for (const ReadRate& rate : ceilings.read) {
    json.BeginObject().Member("name", rate.place).Member("bytes_per_thread", static_cast<std::uint64_t>(rate.bytes));
    json.Member("one_thread_per_s", rate.one_thread).Member("per_s", rate.all).Member("unit", "bytes").EndObject();
  }
  json.EndArray().Key("rates").BeginArray();
  for (const KernelRate& rate : rates) {
    json.BeginObject().Member("kernel", rate.kernel).Member("what", rate.what).Member("microseconds", 1e6 * rate.seconds);
    json.Member("operations_per_s", rate.operations / rate.seconds).Member("bytes_per_s", rate.bytes / rate.seconds);
    json.Member("read_per_s", rate.read_rate).Member("fraction", rate.fraction).Member("ceiling", rate.by_memory ? "memory" : "compute").EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

std::string TableOf(const BenchKernelsOptions& options, int threads, const Ceilings& ceilings, const std::vector<KernelRate>& rates) {
  std::string out = fmt::format("{:10} {:30} {:>12} {:>12}\n", "ceiling", "", "1 thread", fmt::format("{} threads", threads));
  for (const ComputeRate& rate : ceilings.compute) {
    out += fmt::format("{:10} {:30} {:>7.0f} G/s  {:>7.0f} G/s\n", rate.name, rate.instruction, rate.one_thread * 1e-9, rate.all * 1e-9);
  }
  for (const ReadRate& rate : ceilings.read) {
    const std::string size = rate.bytes < (1u << 20) ? fmt::format("{} KiB", rate.bytes >> 10) : fmt::format("{} MiB", rate.bytes >> 20);
    out += fmt::format("{:10} {:30} {:>6.1f} GB/s  {:>6.1f} GB/s\n", rate.place, size + " a thread, read in order", rate.one_thread * 1e-9, rate.all * 1e-9);
  }
  out += fmt::format("\n{:26} {:14} {:>10} {:>9} {:>9} {:>9}  {}\n", "kernel, " + options.shape, "", "us", "G/s", "GB/s", "of GB/s",
                     "of the nearer ceiling");
  for (const KernelRate& rate : rates) {
    const std::string read = rate.read_rate > 0 ? fmt::format("{:.1f}", rate.read_rate * 1e-9) : "";
    out += fmt::format("{:26} {:14} {:>10.1f} {:>9.0f} {:>9.1f} {:>9}  {:.2f} {}\n", rate.kernel, rate.what, 1e6 * rate.seconds,
                       rate.operations / rate.seconds * 1e-9, rate.bytes / rate.seconds * 1e-9, read, rate.fraction,
                       rate.by_memory ? "memory" : "compute");
  }
  return out;
}

}  // namespace

void BenchKernelsOptions::Describe(FieldList& fields) {
  fields.Group("Kernels");
  fields.Add("shape", "KxN", &shape, "columns and rows of the matrix, multiples of 32");
  fields.Add("threads", "N", &engine.threads, "threads that compute [the cores given to this process]").Range(1, 1024);
  fields.Add("kernels", "NAME", &engine.kernels, "with which instructions").OneOf({"auto", "amx", "avx512vnni", "avx2", "ref"});
  output.Describe(fields);
}

Status RunBenchKernels(const BenchKernelsOptions& options, Context& context) {
  int k = 0, outputs = 0;
  if (!ParseShape(options.shape, k, outputs)) {
    return InvalidArgument(fmt::format("--shape is two multiples of 32 up to 65536, as 2048x8192, found {}", options.shape), "--shape");
  }
  SKEIN_ASSIGN_OR_RETURN(const api::Machine machine, api::ResolveMachine(options.engine));
  const kernels::KernelPath path = machine.path.value_or(kernels::AvailablePaths().front());
  kernels::ThreadPool pool(machine.threads);
  SKEIN_ASSIGN_OR_RETURN(Ceilings ceilings, MeasureCeilings(pool));
  const std::size_t pool_bytes = ceilings.read.back().bytes * static_cast<std::size_t>(pool.threads());
  SKEIN_ASSIGN_OR_RETURN(std::vector<KernelRate> rates, MeasureLinear(pool, path, {.k = k, .outputs = outputs, .pool_bytes = pool_bytes}));
  SKEIN_ASSIGN_OR_RETURN(const std::vector<KernelRate> attention, MeasureAttention(pool, path));
  rates.insert(rates.end(), attention.begin(), attention.end());
  SKEIN_ASSIGN_OR_RETURN(const Ceilings again, MeasureCeilings(pool));
  TakeLarger(again, ceilings);
  Judge(ceilings, rates);
  if (context.json()) return context.out().Write(JsonOf(options, machine.threads, path, ceilings, rates));
  return context.out().Write(TableOf(options, machine.threads, ceilings, rates));
}

}  // namespace skein::app
