// SPDX-License-Identifier: Apache-2.0
//
// Machine is EngineOptions after their words were understood: what `auto` leaves open is still open here, what was
// named is known to exist on this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/mesh.h"
#include "comm/wire/wire.h"
#include "engine/engine.h"
#include "kernels/arithmetic.h"
#include "kernels/attention/attention.h"
#include "model/model.h"
#include "skein/options.h"
#include "supervisor/hosts.h"

namespace skein::api {

struct Machine {
  int threads = 1;
  std::optional<kernels::Arithmetic> arithmetic;
  std::optional<kernels::KernelPath> path;
  std::optional<kernels::KvType> kv_type;
  std::string packed_cache;  // folder; empty: none
  int context = 0;      // 0: the model's, or what memory holds
  int step_tokens = 512;
  bool fixed_step = false;  // step_tokens was asked for: steps are cut by it alone, not by how long they take
  int step_outputs = 64;
  int sequences = 64;
  std::uint64_t kv_tokens = 0;  // 0: one context
  // A server's way to say how much KV there is, when kv_tokens is 0: so many bytes; or, when they are 0 too, as many
  // contexts as fit a quarter of the free memory, up to this.
  std::uint64_t kv_bytes = 0;
  int kv_contexts = 0;
  // What a server has besides; the defaults of engine::EngineOptions serve one user.
  int requests = 0;              // alive in the engine at once; 0: its default
  std::string policy = "fcfs";
  bool prefix_cache = true;
  comm::Places mesh{1, 1, 1, 1};
  std::string transport = "threads";
  comm::WireTypes wire;
  bool choose_wire = false;            // what travels between hosts is chosen by what their network is good for
  std::vector<supervisor::HostShare> hosts;  // where ranks run; empty: on this one
  std::string control_address, remote_program;
  int batch_hosts = 1;                 // of the batch job that this process is part of, whose hosts mpirun knows by itself
  // Whether ranks may be on other hosts.
  bool by_network() const { return !hosts.empty() || batch_hosts > 1; }
  std::optional<bool> overlap;         // of communication with computing; empty: between hosts
  std::vector<double> rank_speeds;     // by rank, beside each other; empty: all the same
  bool by_slice = false;         // layout-deterministic mode
  // Whether ranks are processes of their own.
  bool processes() const { return transport != "threads" && (mesh.product() > 1 || by_network()); }
  std::shared_ptr<model::PhaseClock> phases;  // null: nobody asks where the time goes
  bool simulated = false;        // nothing is loaded or computed: tokens are hashes, steps take a predicted time
};

// Errors: kInvalidArgument for a name that nothing has, kMissing for kernels that this processor cannot run.
Result<Machine> ResolveMachine(const EngineOptions& options);

// A number for each rank's host, as far as it is known here.
std::vector<int> HostOfRanks(const Machine& machine, const comm::Mesh& mesh);

// The engine above a machine's ranks.
engine::EngineOptions EngineOptionsOf(const Machine& machine, const std::string& model, const std::string& arithmetic, const std::string& kv_type);

// What memory a model needs when run so, with a KV cache for `tokens` of one sequence: on all ranks of this host together, or of the host
// that needs most.
Result<model::MemoryAnswer> MemoryFor(const formats::ModelFile& file, const Machine& machine, std::uint64_t tokens);

}  // namespace skein::api
