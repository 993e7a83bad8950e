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
#include "comm/transports/routed.h"

namespace skein::comm {
namespace {

Result<std::unique_ptr<Transport>> MakeTransport(const MpiJob& job, const Group& group, int tag, const TransportOptions& options, bool routed) {
  constexpr std::size_t kSlotBytes = 4096;  // so that larger messages go in several chunks
  if (routed) return RoutedTransport::Create(job, group, tag, options, kSlotBytes);
  return MpiTransport::Create(job, group, tag, options, kSlotBytes);
}

// By MPI alone, or with shared memory inside hosts. Pretended hosts make ranks of one machine use both.
std::string CheckAll(MpiJob& job, bool routed) {
  int tag = routed ? 100 : 0;
  Group everyone = Group::OnOneHost(job.size(), job.rank());
  const TransportOptions options = {.timeout = std::chrono::seconds(60), .spin = false};
  for (const WireTypes& wire : kTestedWires) {
    for (int hosts = 0; hosts <= 3; ++hosts) {
      if (hosts > job.size()) continue;
      // 0: as they really are.
      everyone.hosts = HostMap::Of(hosts == 0 ? job.hosts() : SpreadOverHosts(job.size(), hosts));
      Result<std::unique_ptr<Transport>> transport = MakeTransport(job, everyone, ++tag, options, routed);
      if (!transport.ok()) return transport.status().message();
      Communicator communicator(everyone, std::move(transport).value(), {.wire = wire, .kernels = kernels::AvailablePaths().front()});
      std::string problem = CheckSums(communicator, static_cast<unsigned>(job.rank()));
      if (problem.empty()) problem = CheckMoving(communicator.transport(), 20);
      if (!problem.empty()) return fmt::format("{}{}", routed ? "routed: " : "", problem);
      communicator.transport().Drain();
    }
  }
  return "";
}

// Returns what is wrong with the others' account of a rank that has stopped.
std::string CheckFrozen(MpiJob& job) {
  Group everyone = Group::OnOneHost(job.size(), job.rank());
  everyone.hosts = HostMap::Of(job.hosts());
  auto transport = RoutedTransport::Create(job, everyone, 1, {.timeout = std::chrono::seconds(1), .spin = false});
  if (!transport.ok()) return transport.status().message();
  Communicator communicator(everyone, std::move(transport).value(), {});
  std::vector<float> x(600, 1.0f), out(600);
  for (int round = 0; round < 1000; ++round) {
    if (round == 20 && job.rank() == job.size() - 1) raise(SIGSTOP);
    const Status status = communicator.AllReduceBy(Algorithm::kOneShot, {.x = x.data(), .out = out.data(), .rows = 1, .columns = 600});
    if (status.ok()) continue;
    if (job.rank() == job.size() - 1) return "";  // awake again, and the others are gone
    // Whoever finds out first says so; the other may only learn that it was given up.
    const std::string about = fmt::format("all_reduce: rank {} ", job.size() - 1);
    const bool names_it = status.message().starts_with(about + "did not answer") || status.message().starts_with(about + "was given up by rank");
    return names_it ? "" : status.message();
  }
  return "never noticed";
}

int Main(bool freeze) {
  Result<MpiJob> job = MpiJob::Join();
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", job.status().message().c_str());
    return 1;
  }
  std::string problem = freeze ? CheckFrozen(*job) : CheckAll(*job, /*routed=*/false);
  if (problem.empty() && !freeze) problem = CheckAll(*job, /*routed=*/true);
  if (!problem.empty()) std::fprintf(stderr, "rank %d: %s\n", job->rank(), problem.c_str());
  // A job that has lost a rank cannot be left in order: the launcher ends what is left of it.
  if (freeze || !problem.empty()) std::_Exit(problem.empty() ? 77 : 1);
  job->Leave();
  return 0;
}

}  // namespace
}  // namespace skein::comm

int main(int count, char** arguments) { return skein::comm::Main(count > 1 && std::string_view(arguments[1]) == "--freeze"); }
