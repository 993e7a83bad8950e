// SPDX-License-Identifier: Apache-2.0
//
// The checks of collectives as a job of MPI: `mpirun -n 3 mpi_ranks_test`. If they failed here only, a model on one host would be right and on
// two hosts wrong. With `--freeze` the last rank stops in the middle and the others have to say so.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "comm/collectives/collectives_testing.h"
#include "comm/transports/mpi.h"

namespace skein::comm {
namespace {

std::string CheckAll(MpiJob& job) {
  int tag = 0;
  Group everyone = Group::OnOneHost(job.size(), job.rank());
  const TransportOptions options = {.timeout = std::chrono::seconds(60), .spin = false};
  for (const WireTypes& wire : kTestedWires) {
    for (int hosts = 0; hosts <= 3; ++hosts) {
      if (hosts > job.size()) continue;
      // 0: as they really are.
      everyone.hosts = HostMap::Of(hosts == 0 ? job.hosts() : SpreadOverHosts(job.size(), hosts));
      Communicator communicator(everyone, MpiTransport::Create(job, everyone, ++tag, options, /*slot_bytes=*/4096),
                                {.wire = wire, .kernels = kernels::AvailablePaths().front()});
      const std::string problem = CheckSums(communicator, static_cast<unsigned>(job.rank()));
      if (!problem.empty()) return problem;
      communicator.transport().Drain();
    }
  }
  const auto transport = MpiTransport::Create(job, everyone, ++tag, options, /*slot_bytes=*/4096);
  const std::string problem = CheckMoving(*transport, 100);
  transport->Drain();
  return problem;
}

// Returns what is wrong with the others' account of a rank that has stopped.
std::string CheckFrozen(MpiJob& job) {
  const Group everyone = Group::OnOneHost(job.size(), job.rank());
  Communicator communicator(everyone, MpiTransport::Create(job, everyone, 1, {.timeout = std::chrono::milliseconds(500), .spin = false}), {});
  std::vector<float> x(600, 1.0f), out(600);
  for (int round = 0; round < 1000; ++round) {
    if (round == 20 && job.rank() == job.size() - 1) raise(SIGSTOP);
    const Status status = communicator.AllReduceBy(Algorithm::kOneShot, {.x = x.data(), .out = out.data(), .rows = 1, .columns = 600});
    if (status.ok()) continue;
    if (job.rank() == job.size() - 1) return "";  // awake again, and the others are gone
    const std::string wanted = fmt::format("all_reduce: rank {} did not answer", job.size() - 1);
    return status.message().substr(0, wanted.size()) == wanted ? "" : status.message();
  }
  return "never noticed";
}

int Main(bool freeze) {
  Result<MpiJob> job = MpiJob::Join();
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", job.status().message().c_str());
    return 1;
  }
  const std::string problem = freeze ? CheckFrozen(*job) : CheckAll(*job);
  if (!problem.empty()) std::fprintf(stderr, "rank %d: %s\n", job->rank(), problem.c_str());
  // A job that has lost a rank cannot be left in order: the launcher ends what is left of it.
  if (freeze || !problem.empty()) std::_Exit(problem.empty() ? 77 : 1);
  job->Leave();
  return 0;
}

}  // namespace
}  // namespace skein::comm

int main(int count, char** arguments) { return skein::comm::Main(count > 1 && std::string_view(arguments[1]) == "--freeze"); }
