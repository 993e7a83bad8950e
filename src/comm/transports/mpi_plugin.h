// SPDX-License-Identifier: Apache-2.0
//
// The table of plain functions between Skein and libskein_mpi.so, the only code that is compiled against an MPI. The program itself runs where
// no MPI is installed and loads the library when `mpi` is asked for (transports/mpi.h).
//
// Bytes only, no types of C++: the two may be built at different times. A change of meaning changes kMpiPluginVersion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skein::comm {

constexpr std::uint32_t kMpiPluginVersion = 1;
constexpr const char* kMpiPluginSymbol = "skein_mpi_plugin";
constexpr std::size_t kHostNameBytes = 128;

struct MpiPlugin {
  std::uint32_t version;
  // Joins the job that mpirun or srun started. 0, or not 0 with a reason in `error`.
  int (*start)(char* error, std::size_t error_bytes);
  int (*rank)();
  int (*size)();
  // Everybody's host, [size, kHostNameBytes]: called by all ranks.
  int (*hosts)(const char* mine, char* all);
  // Begin and return a number for `test`, or -1. A receive takes at most `bytes`.
  int (*send)(const void* data, std::size_t bytes, int rank, int tag);
  int (*receive)(void* data, std::size_t bytes, int rank, int tag);
  // 1: done, and the number is free again; for a receive *bytes is what came. 0: not yet. -1: failed.
  int (*test)(int request, std::size_t* bytes);
  // MPI's own sum, for comparison.
  int (*all_reduce)(const float* x, float* out, std::size_t count);
  // Leaves the job in order; all ranks have to.
  void (*finish)();
};

using MpiPluginFunction = const MpiPlugin* (*)();

}  // namespace skein::comm
