// SPDX-License-Identifier: Apache-2.0
//
// libskein_mpi.so: the functions of mpi_plugin.h on whatever MPI it was compiled with. Errors come back as numbers; nothing waits.
#include "comm/transports/mpi_plugin.h"

#include <mpi.h>

#include <cstdio>
#include <vector>

namespace skein::comm {
namespace {

// Requests that are under way and their numbers. One job per process, so one table.
struct Requests {
  std::vector<MPI_Request> open;
  std::vector<int> free;

  int Add(MPI_Request request) {
    if (free.empty()) {
      open.push_back(request);
      return static_cast<int>(open.size()) - 1;
    }
    const int number = free.back();
    free.pop_back();
    open[static_cast<std::size_t>(number)] = request;
    return number;
  }
};

Requests& TheRequests() {
  static Requests requests;
  return requests;
}

int Start(char* error, std::size_t error_bytes) {
  int given = 0;
  // One thread at a time calls, not always the same one.
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS) {
    std::snprintf(error, error_bytes, "MPI_Init_thread failed");
    return 1;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (given < MPI_THREAD_SERIALIZED) {
    std::snprintf(error, error_bytes, "this MPI allows its first thread only");
    return 1;
  }
  return 0;
}

int RankNumber() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int Size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

int Hosts(const char* mine, char* all) {
  constexpr int kBytes = static_cast<int>(kHostNameBytes);
  return MPI_Allgather(mine, kBytes, MPI_CHAR, all, kBytes, MPI_CHAR, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -1;
}

int StartSend(const void* data, std::size_t bytes, int rank, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, rank, tag, MPI_COMM_WORLD, &request) != MPI_SUCCESS) return -1;
  return TheRequests().Add(request);
}

int StartReceive(void* data, std::size_t bytes, int rank, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, rank, tag, MPI_COMM_WORLD, &request) != MPI_SUCCESS) return -1;
  return TheRequests().Add(request);
}

int Test(int number, std::size_t* bytes) {
  int done = 0;
  MPI_Status status;
  if (MPI_Test(&TheRequests().open[static_cast<std::size_t>(number)], &done, &status) != MPI_SUCCESS) return -1;
  if (done == 0) return 0;
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = static_cast<std::size_t>(count);
  TheRequests().free.push_back(number);
  return 1;
}

int AllReduce(const float* x, float* out, std::size_t count) {
  return MPI_Allreduce(x, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -1;
}

void Finish() { MPI_Finalize(); }

constexpr MpiPlugin kPlugin = {.version = kMpiPluginVersion,
                               .start = Start,
                               .rank = RankNumber,
                               .size = Size,
                               .hosts = Hosts,
                               .send = StartSend,
                               .receive = StartReceive,
                               .test = Test,
                               .all_reduce = AllReduce,
                               .finish = Finish};

}  // namespace
}  // namespace skein::comm

extern "C" [[gnu::visibility("default")]] const skein::comm::MpiPlugin* skein_mpi_plugin() { return &skein::comm::kPlugin; }
