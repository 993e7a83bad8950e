// SPDX-License-Identifier: Apache-2.0
//
// skein bench comm: collectives over transports of this host, beside MPI_Allreduce where there is an MPI.
//
// Rounds alternate between transports, since a virtual machine's cores move nearer and further apart within minutes; comparisons are
// made within a round. For `mpi` the program starts itself again under mpirun and reads rows from it; whoever starts it under mpirun
// (over several hosts, say) gets the rows of that job.
#include "bench_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench_comm_figures.h"
#include "comm/transports/mpi.h"
#include "help.h"
#include "kernels/threads/thread_pool.h"
#include "run_program.h"

namespace skein::app {
namespace {

Result<CommPlan> PlanOf(const BenchCommOptions& options) {
  CommPlan plan;
  plan.ranks = options.ranks;
  plan.hosts = options.hosts;
  if (plan.hosts > plan.ranks) {
    return InvalidArgument(fmt::format("--pretend-hosts takes at most as many as ranks ({}), found {}", plan.ranks, plan.hosts), "--pretend-hosts");
  }
  for (const int size : options.sizes) plan.sizes.push_back(static_cast<std::size_t>(size) / 4 * 4);
  std::sort(plan.sizes.begin(), plan.sizes.end());
  for (const comm::WireType wire : {comm::WireType::kFp32, comm::WireType::kBf16, comm::WireType::kInt8}) {
    if (options.wire == "all" || options.wire == NameOf(wire)) plan.wires.push_back(wire);
  }
  for (const comm::AlgorithmInfo& info : comm::Algorithms()) {
    if (options.algorithm == "all" || options.algorithm == info.name) plan.algorithms.push_back(info.algorithm);
  }
  plan.messages = plan.ranks > 1;
  return plan;
}

bool HasMpirun() { return !FindProgram("mpirun").empty(); }

// The same measurement as a job of MPI on this host.
Result<std::vector<CommRow>> MeasureWithMpirun(const BenchCommOptions& options) {
  SKEIN_ASSIGN_OR_RETURN(const std::string program, OwnProgram());
  std::string sizes;
  for (const int size : options.sizes) sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", size);
  const bool enough = options.ranks <= kernels::AvailableCores();
  // In a container everybody is root, of which Open MPI wants to be told that it is meant.
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun {} -n {} {} bench comm --transport mpi --csv --size {} --wire {} --algorithm {}",
      enough ? "--bind-to core" : "--oversubscribe", options.ranks, ShellWord(program), sizes, options.wire,
      options.algorithm);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return InternalError("mpirun cannot be started");
  std::string text;
  char block[4096];
  for (std::size_t n = 0; (n = fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, n);
  if (pclose(pipe) != 0) return Status(Code::kUnavailable, "the ranks of mpirun were expected to measure, it ended with an error; see above");
  return CommFromCsv(text);
}

Status Write(const std::vector<std::vector<CommRow>>& rounds, const CommPlan& plan, const BenchCommOptions& options, Context& context) {
  if (rounds.front().empty()) return OkStatus();  // a rank of an MPI job that does not speak
  if (options.csv) return context.out().Write(CommCsv(MergeRounds(rounds)));
  return context.out().Write(context.json() ? CommJson(rounds, plan, BuildCommit()) : CommText(rounds, plan));
}

}  // namespace

void BenchCommOptions::Describe(FieldList& fields) {
  fields.Group("Measurement");
  fields.Add("ranks", "N", &ranks, "ranks on this host").Range(1, 64);
  fields.Add("pretend-hosts", "N", &hosts, "sums as if the ranks were on N hosts").Range(1, comm::kHostsMax);
  fields.Add("transport", "NAME", &transport, "what to measure").OneOf({"all", "threads", "shm", "mpi"});
  fields.Add("wire", "TYPE", &wire, "type of numbers on the way").OneOf({"all", "fp32", "bf16", "int8"});
  std::vector<std::string> algorithms{"all"};
  for (const comm::AlgorithmInfo& info : comm::Algorithms()) algorithms.emplace_back(info.name);
  fields.Add("algorithm", "NAME", &algorithm, "of all-reduce").OneOf(algorithms);
  fields.Add("size", "LIST", &sizes, "bytes of fp32").Range(4, 1 << 28);
  fields.Add("rounds", "N", &rounds, "over all transports in turn").Range(1, 100);
  fields.Add("csv", "", &csv, "rows as CSV");
  output.Describe(fields);
}

Status RunBenchComm(const BenchCommOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const CommPlan plan, PlanOf(options));
  std::vector<std::vector<CommRow>> rounds;
  if (comm::MpiJob::Launched()) {
    SKEIN_ASSIGN_OR_RETURN(rounds.emplace_back(), MeasureInMpiJob(plan));
    return Write(rounds, plan, options, context);
  }
  const bool with_mpi = options.transport == "mpi" || (options.transport == "all" && comm::MpiJob::Available() && HasMpirun());
  if (options.transport == "mpi" && !(comm::MpiJob::Available() && HasMpirun())) {
    return MissingError("--transport mpi needs mpirun and libskein_mpi.so beside the program; install openmpi-bin and build with libopenmpi-dev",
                        "--transport");
  }
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<CommRow>& rows = rounds.emplace_back();
    for (const char* transport : {"threads", "shm"}) {
      if (options.transport != "all" && options.transport != transport) continue;
      SKEIN_ASSIGN_OR_RETURN(const auto more, MeasureOnHost(plan, transport));
      rows.insert(rows.end(), more.begin(), more.end());
    }
    if (!with_mpi) continue;
    SKEIN_ASSIGN_OR_RETURN(const auto more, MeasureWithMpirun(options));
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return Write(rounds, plan, options, context);
}

}  // namespace skein::app
