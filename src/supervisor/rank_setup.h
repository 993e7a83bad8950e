// SPDX-License-Identifier: Apache-2.0
//
// RankSetup is all that a rank's process is told before it begins; RankFacts is what the first rank answers when it is loaded. Both
// are plain fields with one list each (rank_setup.cc), and travel in the messages of control_wire.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/wire.h"
#include "comm/mesh.h"
#include "engine/executor.h"

namespace skein::supervisor {

// Which file a model was when the supervisor looked: ranks compute with that one or not at all.
struct ModelIdentity {
  std::uint64_t bytes = 0;  // of a folder: of all its files
  std::int64_t changed_ns = 0;  // the latest change
  friend bool operator==(const ModelIdentity&, const ModelIdentity&) = default;
};
// Errors: kInvalidFile naming the path.
Result<ModelIdentity> IdentityOf(const std::string& path);

struct RankSetup {
  // Filled in for each rank by the supervisor.
  std::string build = {};              // BuildId() of the supervisor
  std::int32_t rank = 0;
  std::uint64_t incarnation = 0;       // counts starts of the replica
  std::int64_t now_ns = 0;             // on the supervisor's steady clock, when this was sent: another host's is another one
  std::int32_t engine_descriptor = -1;  // inherited: where the first rank serves its engine; -1: none
  std::vector<std::int32_t> arena_descriptors = {};  // inherited, in the order of SupervisorOptions::arenas

  comm::Places mesh{1, 1, 1, 1};
  std::string transport = "shm";
  std::string body = {};               // what the rank does: empty: computes with the model; else a name that the program knows
  std::string model = {};              // path
  ModelIdentity identity = {};
  bool streamed = false;               // whoever has no such file asks the supervisor for its bytes

  // As api::Machine has them; words where that has enumerations, empty for what is left open.
  std::int32_t threads = 1;
  std::string arithmetic = {}, kernels = {}, kv_type = {};
  std::string packed_cache = {};       // folder; empty: none
  std::int32_t context = 0;
  std::int32_t step_tokens = 512;
  bool fixed_step = false;
  std::int32_t step_outputs = 64;
  std::int32_t sequences = 64;
  std::uint64_t kv_tokens = 0, kv_bytes = 0;
  std::int32_t kv_contexts = 0;
  std::int32_t requests = 0;
  std::string policy = "fcfs";
  bool prefix_cache = true;
  std::array<std::uint64_t, 2> prefix_secret = {};
  std::string wire = {};               // type of what travels between ranks of a host, as --wire has it …
  std::string outer_wire = {};         // … and between hosts; "auto": what the network is good for
  std::string overlap = {};              // "on" or "off"; empty: between hosts
  std::vector<double> rank_speeds = {};  // by rank; empty: all the same
  bool by_slice = false;               // layout-deterministic mode
  std::int32_t vocabulary = 0;         // of simulated ranks, which open no model

  std::int32_t ranks() const { return mesh.product(); }
  friend bool operator==(const RankSetup&, const RankSetup&) = default;
};

struct RankFacts {
  engine::ExecutorLimits limits = {};
  std::string arithmetic = {}, kernels = {}, kv_type = {};
  std::string packed_cache = {}, packed_cache_trouble = {};
  std::int32_t context = 0;
  std::uint64_t kv_tokens = 0;
  std::int32_t threads = 0;
  double load_ms = 0;
  std::string wire = {}, outer_wire = {};  // as they were chosen; outer_wire is empty on one host
};

// Names this build; ranks of another one are not started.
std::string_view BuildId();

template <class Wire, wire::Same<ModelIdentity> T>
void Fields(Wire& wire, T& value) {
  wire(value.bytes, value.changed_ns);
}

template <class Wire, wire::Same<RankSetup> T>
void Fields(Wire& wire, T& value) {
  wire(value.build, value.rank, value.incarnation, value.now_ns, value.engine_descriptor, value.arena_descriptors, value.mesh.data, value.mesh.pipe,
       value.mesh.seq, value.mesh.tensor, value.transport, value.body, value.model, value.identity, value.streamed, value.threads, value.arithmetic,
       value.kernels, value.kv_type, value.packed_cache, value.context, value.step_tokens, value.fixed_step, value.step_outputs,
       value.sequences, value.kv_tokens, value.kv_bytes, value.kv_contexts, value.requests, value.policy, value.prefix_cache,
       value.prefix_secret[0], value.prefix_secret[1], value.wire, value.outer_wire, value.overlap, value.rank_speeds, value.by_slice, value.vocabulary);
}

template <class Wire, wire::Same<RankFacts> T>
void Fields(Wire& wire, T& value) {
  wire(value.limits.vocabulary, value.limits.context, value.limits.blocks, value.limits.block_tokens, value.limits.step_tokens,
       value.limits.step_outputs, value.limits.plans_in_flight, value.arithmetic, value.kernels, value.kv_type, value.packed_cache,
       value.packed_cache_trouble, value.context, value.kv_tokens, value.threads, value.load_ms, value.wire, value.outer_wire);
}

}  // namespace skein::supervisor
