// SPDX-License-Identifier: Apache-2.0
//
// What `skein bench comm` makes of its rows: one row per cell over all rounds, the comparison with MPI_Allreduce, and the forms in which people
// and programs read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench_comm_measure.h"

namespace skein::app {

// A cell over all rounds: the median of its medians, the best of all.
std::vector<CommRow> MergeRounds(const std::vector<std::vector<CommRow>>& rounds);

// How many times as long as a row MPI_Allreduce took for the same bytes: the median over the rounds' ratios, since a machine's speed changes from
// round to round. 0: not measured.
double TimesMpi(const std::vector<std::vector<CommRow>>& rounds, const CommRow& row);

std::string CommCsv(const std::vector<CommRow>& rows);
// What CommCsv wrote; kInvalidFile otherwise.
Result<std::vector<CommRow>> CommFromCsv(std::string_view text);

std::string CommJson(const std::vector<std::vector<CommRow>>& rounds, const CommPlan& plan, std::string_view build_commit);
// Tables and, over them, time over size as letters on a logarithmic axis.
std::string CommText(const std::vector<std::vector<CommRow>>& rounds, const CommPlan& plan);

}  // namespace skein::app
