// SPDX-License-Identifier: Apache-2.0
//
// The measuring part of `skein bench comm`: what one member does, and ranks as threads or processes of this host that do it together.
//
// Times are member 0's. A cell (algorithm and size) is calls in batches of about a millisecond; its figure is the median over batches, with the
// best one beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace skein::app {

struct CommPlan {
  int ranks = 2;
  int hosts = 1;  // pretended ones, for the shape of sums
  std::vector<std::size_t> sizes;  // bytes of fp32
  std::vector<comm::WireType> wires;
  std::vector<comm::Algorithm> algorithms;
  int batches = 7;
  bool messages = true;  // also measures messages between members 0 and 1
};

struct CommRow {
  std::string transport, wire, algorithm;  // kMessage: one way between two members; kMpiAllReduce
  std::size_t bytes = 0;                   // of fp32; of a message
  double median_us = 0, best_us = 0;
};
constexpr const char* kMessage = "message";
constexpr const char* kMpiAllReduce = "MPI_Allreduce";

// Microseconds of a call of `work`: everybody calls it as often, told by member 0 through `communicator`.
struct CellTime {
  double median_us = 0, best_us = 0;
};
Result<CellTime> TimeCell(comm::Communicator& communicator, int batches, const std::function<Status()>& work);

// What every member does with one communicator: all cells of the plan for its wire type.
Result<std::vector<CommRow>> MeasureMember(comm::Communicator& communicator, const CommPlan& plan, bool messages);

// All of the plan with the ranks of the MPI job that this process belongs to, and MPI_Allreduce; what rank 0 found. Ends the process
// when a rank is lost: nothing else can be done about a job of MPI.
Result<std::vector<CommRow>> MeasureInMpiJob(CommPlan plan);

// All of the plan with ranks of this host on `transport` ("threads" or "shm"); this thread is member 0.
Result<std::vector<CommRow>> MeasureOnHost(const CommPlan& plan, const std::string& transport);

// time = alpha + bytes / bandwidth, the line through the message rows of a transport with the least relative error.
struct LinkFit {
  double alpha_us = 0;
  double gigabytes_per_s = 0;
};
LinkFit FitLink(const std::vector<CommRow>& rows, const std::string& transport);

}  // namespace skein::app
