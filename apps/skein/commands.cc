// SPDX-License-Identifier: Apache-2.0
//
// The table of commands, in the order of the overview.
#include "commands.h"

#include "bench_comm.h"
#include "bench_ranks.h"
#include "bench_serve.h"
#include "command.h"
#include "mesh.h"

namespace skein::app {
namespace {

constexpr std::string_view kAnswering = "Answering";
constexpr std::string_view kModels = "Models and this machine";
constexpr std::string_view kInside = "Looking inside";
constexpr std::string_view kMeasuring = "Checking and measuring";

constexpr Command kCommands[] = {
    {"run", "MODEL [PROMPT]", "answers one prompt",
     "A text is a chat turn when the model has a chat template, unless --raw. --temperature 0 is greedy.", kAnswering,
     &Invoke<RunOptions, RunRun>},
    {"chat", "MODEL", "holds a conversation",
     "In the conversation: /help, /system TEXT, /reset, /exit. Ctrl-C stops an answer, Ctrl-D leaves.", kAnswering,
     &Invoke<ChatOptions, RunChat>},
    {"serve", "MODEL", "answers over HTTP, as OpenAI's API",
     "SIGTERM drains: no new work, running answers end, exit 0. A second one stops at once.", kAnswering,
     &Invoke<ServeOptions, RunServe>},
    {"models", "", "lists the models in the cache", "", kModels, &Invoke<ModelsOptions, RunModels>},
    {"pull", "NAME", "fetches a model into the cache", "NAME is default: SmolLM2-135M-Instruct, 98 MB.", kModels,
     &Invoke<PullOptions, RunPull>},
    {"make-model", "--out F.gguf", "writes a model with random weights", "", kModels,
     &Invoke<MakeModelCommandOptions, RunMakeModel>},
    {"doctor", "", "tells what this machine can run and what is in the way", "", kModels,
     &Invoke<DoctorOptions, RunDoctor>},
    {"inspect", "MODEL", "shows metadata, tensors and memory need", "", kInside, &Invoke<InspectOptions, RunInspect>},
    {"tokenize", "MODEL [TEXT]", "turns text into token ids",
     "--jsonl reads lines {\"text\" or \"bytes_base64\", \"add_special\", \"parse_special\"} and writes {\"ids\"}.\n"
     "MODEL may also be a bare tokenizer.json.",
     kInside, &Invoke<TokenizeOptions, RunTokenize>},
    {"detokenize", "MODEL [IDS]", "turns token ids into text",
     "--jsonl reads lines {\"ids\", \"skip_special\"} and writes {\"text\"}.", kInside,
     &Invoke<DetokenizeOptions, RunDetokenize>},
    {"template", "[MODEL] --jsonl", "renders chat templates",
     "Reads lines {\"messages\", \"tools\", \"documents\", \"add_generation_prompt\", \"kwargs\", \"now\"}, or with\n"
     "--expressions {\"template\", \"context\"}, and writes {\"text\"} or {\"error\"}.",
     kInside, &Invoke<TemplateOptions, RunTemplate>},
    {"eval logits", "MODEL --tokens F.json --out F.f32", "writes the logits of every position", "", kMeasuring,
     &Invoke<EvalLogitsOptions, RunEvalLogits>},
    {"eval perplexity", "MODEL --text F --context N", "measures perplexity in windows of a text", "", kMeasuring,
     &Invoke<EvalPerplexityOptions, RunEvalPerplexity>},
    {"eval choices", "MODEL --jsonl F", "answers multiple choice by likelihood",
     "Lines are {\"prompt\", \"choices\", \"answer\"}; the choice of the highest mean log-probability is taken.", kMeasuring,
     &Invoke<EvalChoicesOptions, RunEvalChoices>},
    {"bench model", "MODEL", "measures prefill and decode",
     "Lists have commas: -p 128,512. Every combination is a row; each has one repetition first that is\nnot counted.",
     kMeasuring, &Invoke<BenchModelOptions, RunBenchModel>},
    {"bench kernels", "", "measures this machine's ceilings and how near the kernels come",
     "A kernel is held against the nearer ceiling: computing, or reading weights, keys and values once.", kMeasuring,
     &Invoke<BenchKernelsOptions, RunBenchKernels>},
    {"bench comm", "", "measures ranks talking to each other",
     "All-reduce by algorithm and size, and plain messages; beside MPI_Allreduce where there is an MPI.\nStarted by mpirun it measures that job.",
     kMeasuring, &Invoke<BenchCommOptions, RunBenchComm>},
    {"bench ranks", "MODEL", "measures how much of its ranks a mesh makes use of",
     "One rank, one process and the mesh in turn: efficiency, its bound, and where the rest goes.", kMeasuring,
     &Invoke<BenchRanksOptions, RunBenchRanks>},
    {"bench serve", "--base-url URL", "sends a load to a server that speaks OpenAI's API",
     "--goodput may take several goals at once: --goodput ttft:200 tpot:50 e2el:4000. A trace has lines\n"
     "{\"timestamp_ms\", \"input_length\", \"output_length\"} or {\"timestamp_ms\", \"prompt\", \"max_tokens\"}.",
     kMeasuring, &Invoke<BenchServeOptions, RunBenchServe>},
    {"mesh check", "[--hosts a,b,…]", "tells whether ranks can work here, or on several hosts",
     "Hosts are reached by ssh, as mpirun would; version, clock and the links between them are looked at.", kMeasuring,
     &Invoke<MeshCheckOptions, RunMeshCheck>},
    {"mesh top", "[--url URL]", "shows what the ranks behind a server do", "Once where standard output is no terminal; else until Ctrl-C.",
     kMeasuring, &Invoke<MeshTopOptions, RunMeshTop>},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace skein::app
