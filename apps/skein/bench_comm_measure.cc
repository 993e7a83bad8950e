// SPDX-License-Identifier: Apache-2.0
#include "bench_comm_measure.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <thread>

#include "base/thread_without_signals.h"
#include "comm/transports/routed.h"
#include "comm/transports/shared_memory.h"
#include "kernels/threads/thread_pool.h"

namespace skein::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBatchUs = 1000;
constexpr int kCallsMax = 10000;
constexpr int kColumns = 512;

double Microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

comm::Group GroupOf(const CommPlan& plan, int member) {
  comm::Group group = comm::Group::OnOneHost(plan.ranks, member);
  group.hosts = comm::HostMap::Of(comm::SpreadOverHosts(plan.ranks, plan.hosts));
  return group;
}

// A core for each member, when there are enough: two that share one would measure the scheduler.
void TakeCore(int member, int ranks) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  int left = member;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || left-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Everything that one member does; `arenas` has one per wire type.
Result<std::vector<CommRow>> RunMember(const CommPlan& plan, std::deque<comm::Arena>& arenas, int member) {
  std::vector<CommRow> rows;
  const bool spin = plan.ranks <= kernels::AvailableCores();
  TakeCore(member, plan.ranks);
  for (std::size_t i = 0; i < plan.wires.size(); ++i) {
    SKEIN_ASSIGN_OR_RETURN(auto transport, comm::SharedMemoryTransport::Create(arenas[i], member, {.timeout = std::chrono::seconds(10), .spin = spin}));
    comm::Communicator communicator(GroupOf(plan, member), std::move(transport),
                                    {.wire = {plan.wires[i], plan.wires[i]}, .kernels = kernels::AvailablePaths().front()});
    SKEIN_ASSIGN_OR_RETURN(const auto more, MeasureMember(communicator, plan, plan.messages && i == 0));
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace

Result<CellTime> TimeCell(comm::Communicator& communicator, int batches, const std::function<Status()>& work) {
  int calls = 3;
  double first = 0;
  for (const int warm : {3, 20}) {
    SKEIN_RETURN_IF_ERROR(communicator.Barrier());
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < warm; ++i) SKEIN_RETURN_IF_ERROR(work());
    first = Microseconds(Clock::now() - begin) / warm;
  }
  calls = static_cast<int>(std::clamp(kBatchUs / std::max(first, 0.01), 1.0, static_cast<double>(kCallsMax)));
  SKEIN_RETURN_IF_ERROR(communicator.Broadcast(0, std::as_writable_bytes(std::span(&calls, 1))));
  std::vector<double> times;
  for (int batch = 0; batch < batches; ++batch) {
    SKEIN_RETURN_IF_ERROR(communicator.Barrier());
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) SKEIN_RETURN_IF_ERROR(work());
    times.push_back(Microseconds(Clock::now() - begin) / calls);
  }
  std::sort(times.begin(), times.end());
  return CellTime{times[times.size() / 2], times.front()};
}

Result<std::vector<CommRow>> MeasureMember(comm::Communicator& communicator, const CommPlan& plan, bool messages) {
  std::vector<CommRow> rows;
  const std::string transport(communicator.transport().name());
  const std::size_t largest = *std::max_element(plan.sizes.begin(), plan.sizes.end());
  std::vector<float> x(largest / sizeof(float) + 1, 1.0f), out(x.size());
  // "auto" stands beside the others when there are several: what the table measured at start makes of them.
  std::vector<comm::Algorithm> algorithms = plan.algorithms;
  if (algorithms.size() > 1) {
    SKEIN_RETURN_IF_ERROR(communicator.Tune());
    algorithms.push_back(comm::Algorithm::kAuto);
  }
  for (const std::size_t bytes : plan.sizes) {
    const int values = static_cast<int>(bytes / sizeof(float));
    const int columns = std::min(values, kColumns);
    const comm::Reduction reduction = {.x = x.data(), .out = out.data(), .rows = values / columns, .columns = columns};
    for (const comm::Algorithm algorithm : algorithms) {
      SKEIN_ASSIGN_OR_RETURN(const CellTime cell, TimeCell(communicator, plan.batches, [&] {
        return algorithm == comm::Algorithm::kAuto ? communicator.AllReduce(reduction) : communicator.AllReduceBy(algorithm, reduction);
      }));
      rows.push_back({transport, std::string(NameOf(communicator.options().wire.inner)), std::string(NameOf(algorithm)), bytes, cell.median_us, cell.best_us});
    }
    if (!messages) continue;
    // Forth and back between members 0 and 1.
    const auto there = std::as_writable_bytes(std::span(x)).first(bytes);
    SKEIN_ASSIGN_OR_RETURN(const CellTime cell, TimeCell(communicator, plan.batches, [&]() -> Status {
      if (communicator.self() == 0) {
        SKEIN_RETURN_IF_ERROR(communicator.Send(1, there));
        return communicator.Receive(1, there);
      }
      if (communicator.self() != 1) return OkStatus();
      SKEIN_RETURN_IF_ERROR(communicator.Receive(0, there));
      return communicator.Send(0, there);
    }));
    rows.push_back({transport, "", kMessage, bytes, cell.median_us / 2, cell.best_us / 2});
  }
  return rows;
}

Result<std::vector<CommRow>> MeasureOnHost(const CommPlan& plan, const std::string& transport) {
  const bool processes = transport == "shm";
  std::deque<comm::Arena> arenas;
  for (std::size_t i = 0; i < plan.wires.size(); ++i) {
    SKEIN_ASSIGN_OR_RETURN(comm::Arena arena, processes ? comm::Arena::Shared(plan.ranks) : comm::Arena::InProcess(plan.ranks));
    arenas.push_back(std::move(arena));
  }
  std::vector<std::thread> threads;
  std::vector<pid_t> children;
  for (int member = 1; member < plan.ranks; ++member) {
    if (!processes) {
      // What goes wrong for one member goes wrong for member 0 too, whose word counts.
      threads.push_back(ThreadWithoutSignals([&, member] { static_cast<void>(RunMember(plan, arenas, member)); }));
      continue;
    }
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(RunMember(plan, arenas, member).ok() ? 0 : 1);
    }
    if (child > 0) children.push_back(child);
  }
  cpu_set_t before;
  const bool restore = sched_getaffinity(0, sizeof before, &before) == 0;
  Result<std::vector<CommRow>> rows = RunMember(plan, arenas, 0);
  if (restore) sched_setaffinity(0, sizeof before, &before);
  for (std::thread& thread : threads) thread.join();
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return rows;
}

Result<std::vector<CommRow>> MeasureInMpiJob(CommPlan plan) {
  SKEIN_ASSIGN_OR_RETURN(comm::MpiJob job, comm::MpiJob::Join());
  plan.ranks = job.size();
  comm::Group group = comm::Group::OnOneHost(job.size(), job.rank());
  group.hosts = comm::HostMap::Of(job.hosts());
  const int here = group.hosts.SizeOf(group.hosts.HostOf(job.rank()));
  const comm::TransportOptions options = {.timeout = std::chrono::seconds(10), .spin = here <= sysconf(_SC_NPROCESSORS_ONLN)};
  std::vector<CommRow> rows;
  int tag = 0;
  for (std::size_t i = 0; i < plan.wires.size(); ++i) {
    SKEIN_ASSIGN_OR_RETURN(auto transport, comm::RoutedTransport::Create(job, group, ++tag, options));
    comm::Communicator communicator(group, std::move(transport), {.wire = {plan.wires[i], plan.wires[i]}, .kernels = kernels::AvailablePaths().front()});
    SKEIN_ASSIGN_OR_RETURN(const auto more, MeasureMember(communicator, plan, plan.messages && i == 0));
    rows.insert(rows.end(), more.begin(), more.end());
    if (i == 0) {
      for (const std::size_t bytes : plan.sizes) {
        std::vector<float> x(bytes / sizeof(float), 1.0f), out(x.size());
        SKEIN_ASSIGN_OR_RETURN(const CellTime cell, TimeCell(communicator, plan.batches, [&] { return job.AllReduce(x.data(), out.data(), x.size()); }));
        rows.push_back({"mpi", "fp32", kMpiAllReduce, bytes, cell.median_us, cell.best_us});
      }
    }
    communicator.transport().Drain();
  }
  const bool speaks = job.rank() == 0;
  job.Leave();
  if (!speaks) rows.clear();
  return rows;
}

LinkFit FitLink(const std::vector<CommRow>& rows, const std::string& transport) {
  // Least squares of (alpha + beta·bytes) / time against 1.
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (const CommRow& row : rows) {
    if (row.transport != transport || row.algorithm != kMessage || row.median_us <= 0) continue;
    const double a = 1 / row.median_us, b = static_cast<double>(row.bytes) / row.median_us;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant <= 0) return {};
  const double alpha = (a1 * bb - b1 * ab) / determinant, beta = (aa * b1 - ab * a1) / determinant;
  return {std::max(alpha, 0.0), beta > 0 ? 1e-3 / beta : 0};
}

}  // namespace skein::app
