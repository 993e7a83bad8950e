// SPDX-License-Identifier: Apache-2.0
//
// The clients of streams_bench, in a process of their own so that the server's memory is the server's alone. They read
// event streams of "SEQUENCE NANOSECONDS" and note how late each came, and whether one was lost or overtaken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace skein::bench {

struct StreamsOutcome {
  std::uint64_t opened = 0;     // streams whose answer began
  std::uint64_t failed = 0;     // could not connect, or ended early
  std::uint64_t events = 0;
  std::uint64_t misplaced = 0;  // events that were not the next of their stream
  double delay_median_ms = 0, delay_p99_ms = 0, delay_max_ms = 0;
};

// Sends one byte to `control` when all streams are open, and reads streams until the server has ended the active ones.
StreamsOutcome RunStreamClients(int port, int idle, int active, int control);

}  // namespace skein::bench
