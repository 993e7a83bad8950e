// SPDX-License-Identifier: Apache-2.0
//
// What can be chosen when a model is loaded and when an answer is generated. Plain values; the defaults are what the
// program's flags have.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skein {

namespace model {
class PhaseClock;
}

struct EngineOptions {
  int threads = 0;                  // 0: the cores given to this process
  std::string arithmetic = "auto";  // what is rounded where; "exact" rounds nothing but the stored weights
  std::string kernels = "auto";     // with which instructions; changes the speed and no bit
  std::string kv_dtype = "auto";    // type of the KV cache: "bf16", "int8", "fp8", "f32"
  int context = 0;                  // longest sequence; 0: the model's, or what memory holds
  int step_tokens = 0;              // tokens computed in one step, at most; 0: 512
  int sequences = 0;                // sequences computed in one step, at most; 0: 64
  std::string packed_cache;         // folder in which packed weights are kept for the next load; empty: none
  std::uint64_t kv_tokens = 0;      // tokens that the KV cache holds over all sequences; 0: one context
  std::shared_ptr<model::PhaseClock> phases;  // what `run --profile` gives (src/model/phase_clock.h); null: phases are not timed
  // One model over several ranks (docs/ranks.md): in how many parts its heads, columns and vocabulary are cut, and its layers.
  int tensor = 1;
  int pipe = 1;
  std::string transport = "threads";   // what ranks are and how they talk: "threads", "shm" (processes of this host), "mpi"
  std::string hosts;                   // where ranks run, "a,b" or "a:2,b:1"; with transport "mpi"; empty: here
  std::string control_address;         // of this host, for ranks elsewhere: "ADDR" or "ADDR:PORT"; empty: the one on the way to them
  std::string remote_program;          // path of the program on other hosts; empty: as here
  std::string rank_speeds;             // how fast each rank is beside the others, "2,1": shares follow it; empty: all the same
  std::string wire = "auto";           // type of the numbers on the way: "fp32", "bf16", "int8"
  std::string overlap = "auto";        // whether long steps compute while sums are on the way: "on", "off"; changes no bit
  std::string deterministic = "off";   // "layout": every mesh gives the same bits, at a price
};

// Called while a model is loaded, with bytes of weights; by the loading thread.
using LoadProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

struct SamplingOptions {
  float temperature = 0.7f;     // 0: the likeliest token (greedy)
  int top_k = 0;                // 0: off
  float top_p = 0.95f;          // 1: off
  float min_p = 0.0f;           // 0: off
  float repeat_penalty = 1.0f;  // 1: off
  std::uint64_t seed = 0;       // the same seed gives the same answer
};

struct GenerateOptions {
  SamplingOptions sampling;
  int max_tokens = 256;
  std::vector<std::string> stop;    // texts that end the answer and are not part of it
  bool ignore_stop_tokens = false;  // do not end at the model's end-of-answer tokens
  bool logprobs = false;            // generated tokens come with their log-probability
  int top_logprobs = 0;             // likeliest tokens reported beside each generated one; above 0 implies logprobs
};

}  // namespace skein
