// SPDX-License-Identifier: Apache-2.0
//
// What `skein mesh check` looks at: this host, and others by name. Findings as doctor has them; what is wrong with a host is a finding, never an error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench_comm_measure.h"
#include "doctor.h"
#include "mesh.h"

namespace skein::app {

// Whether ranks can run here, and how fast each transport is between two of them.
std::vector<Finding> ExamineHere(const MeshCheckOptions& options);

// The names of --hosts. Errors: kInvalidArgument for what no host is called: a name goes to other programs as an argument.
Result<std::vector<std::string>> HostNames(const std::string& list);

// Whether the hosts can be reached, run the same program (whose version is `own_version`), know the time, and reach each other. Hosts are asked at the
// same time, each for at most options.patience_s.
std::vector<Finding> ExamineHosts(const std::vector<std::string>& hosts, const MeshCheckOptions& options, const std::string& own_version);

// How fast a host's kernels are on 4-bit weights, operations a second: for a prompt, and for a token (which is what its memory gives).
struct HostSpeed {
  double prompt = 0, token = 0;
};
// This host's, with all its cores. Takes a second. Errors: kLimit.
Result<HostSpeed> MeasureHostSpeed();
Finding SpeedOf(std::string name, const HostSpeed& speed);
// Members of the JSON that `mesh check` writes for this host.
inline constexpr const char* kPromptSpeed = "prompt_operations_per_s";
inline constexpr const char* kTokenSpeed = "token_operations_per_s";

// For tests. What a host answered: its version, then nanoseconds since 1970, asked for between two moments of this host's clock.
struct HostAnswer {
  std::string version;
  std::int64_t clock_ns = 0;
};
// Errors: kInvalidFile.
Result<HostAnswer> ReadHostAnswer(std::string_view output);
// Of such JSON among other lines. Errors: kInvalidFile.
Result<HostSpeed> ReadHostSpeed(std::string_view output);
// Whether ranks on these hosts would wait for each other with equal shares, and which shares would be right.
Finding CompareSpeeds(const std::vector<std::string>& hosts, const std::vector<HostSpeed>& speeds);
Finding CompareClocks(const std::string& host, std::int64_t answered_ns, std::int64_t before_ns, std::int64_t after_ns);
// Of the rows of `bench comm` among other lines of mpirun's.
Result<std::vector<CommRow>> ReadLinkRows(std::string_view output);

}  // namespace skein::app
