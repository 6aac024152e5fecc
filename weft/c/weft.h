// weft.h: training from C, and from languages that call C. Link with libweft_c.so; docs/c.md has examples in C and Fortran.
//
// Every call returns WEFT_OK or the kind of its error, whose text weft_last_error() has. A wrong or freed handle, a null
// pointer and a wrong shape are errors, not crashes. Calls marked "collective" are made by every rank of the world, in the same
// order; a rank whose call fails should end, or the others wait until run.timeout_s.
#ifndef WEFT_H
#define WEFT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  WEFT_OK = 0,
  WEFT_ERROR = 1,          // none of the kinds below
  WEFT_INPUT_ERROR = 2,    // the caller can correct it: an argument, the recipe, a file
  WEFT_COMM_ERROR = 3,     // ranks disagree, one died, or a wait passed its deadline
  WEFT_MEMORY_ERROR = 4,   // this rank ran out of memory
  WEFT_NUMERIC_ERROR = 5,  // a number, such as a loss that is not finite
};

// This library's version, "0.1.0".
const char* weft_version(void);
// One line on the last call in this thread that failed, until another fails there; "" if none did.
const char* weft_last_error(void);

// --- ranks -------------------------------------------------------------------------------------------------------------------

// This process's place among the ranks.
typedef struct weft_world weft_world;

// From the environment that `weft run`, torchrun, mpirun or srun sets; one rank if none did. Waits at most timeout_s for the
// other ranks. Collective.
int weft_world_from_environment(double timeout_s, weft_world** world);
// The same, where the program numbers its ranks itself: they meet at `address`, "HOST:PORT", which rank 0 serves.
int weft_world_join(int rank, int size, const char* address, double timeout_s, weft_world** world);
int weft_world_place(weft_world* world, int* rank, int* size);  // either may be null
void weft_world_free(weft_world* world);                        // trainers made with it stay; null: does nothing

// --- arrays ------------------------------------------------------------------------------------------------------------------

enum { WEFT_FLOAT32 = 1, WEFT_FLOAT64 = 2, WEFT_INT32 = 3, WEFT_INT64 = 4 };
enum { WEFT_HOST = 0, WEFT_DEVICE = 1 };

// An array of the caller's, whose first dimension counts samples. Set members that you do not use to 0.
//
// WEFT_DEVICE is memory of the GPU on which this rank trains (run.device). Work on it before a call must be done, or be in a
// stream that the default stream waits for (in CUDA all but those made with cudaStreamNonBlocking). When the call returns, its
// own is done.
typedef struct weft_array {
  void* data;
  const int64_t* shape;    // [dims]
  const int64_t* strides;  // [dims], in elements, 0 or more; null: C order, the last dimension without gaps
  int32_t dims;
  int32_t type;      // WEFT_FLOAT32 to WEFT_INT64
  int32_t borrowed;  // inputs and targets: 0: copied first; 1: read in place until the call returns, unless of another type
  int32_t memory;    // WEFT_HOST or WEFT_DEVICE
} weft_array;

// --- training ----------------------------------------------------------------------------------------------------------------

// A model that is trained on the ranks of a world. It takes one call at a time, from any thread.
typedef struct weft_trainer weft_trainer;

// Takes a line of text, without a newline, in the thread of the call it is about.
typedef void (*weft_log)(void* context, const char* line);

// Makes the model, optimizer, schedule and layout of a recipe: the text of a TOML file as `weft train` takes it, in which
// [data] may be left out. run.steps, run.samples or run.tokens gives the length of the schedule. [save] and the rest that is
// about a run's files and evaluations is not read. `log` may be null. Collective.
int weft_trainer_make(weft_world* world, const char* recipe, weft_log log, void* context, weft_trainer** trainer);
void weft_trainer_free(weft_trainer* trainer);  // null: does nothing

// This rank's share of the next step: samples [first, first + count) of the global batch. Ranks that differ only on layout.pp,
// cp and tp have the same.
int weft_trainer_share(weft_trainer* trainer, int64_t* first, int64_t* count);

typedef struct weft_step {
  int64_t step;          // steps done, with this one
  int64_t targets;       // that counted, over all ranks
  double loss;           // mean over them
  double gradient_norm;  // global, before clipping; 0 without optimizer.clip
  double learning_rate;  // of this step
  int32_t skipped;       // 1: layout.precision = "fp16" and a gradient was not finite: nothing was updated
} weft_step;

// One step on this rank's share. Images are [samples, channels, height, width] with labels [samples] as target; tokens are
// [samples, context] with the next tokens [samples, context]; labels and tokens are integers, a target of -100 does not count.
// A model of a file may take several inputs, in the order of the file's. `result` may be null. Collective.
int weft_trainer_step(weft_trainer* trainer, const weft_array* inputs, int num_inputs, const weft_array* target,
                      weft_step* result);

typedef struct weft_evaluation {
  int64_t targets;  // that counted
  int64_t hits;     // of which the most likely class was right
  double loss;      // mean over them
} weft_evaluation;

// Loss over a set that every rank passes whole, of which each reads its share. With optimizer.ema: of the averaged weights,
// unless run.evaluate = "weights". Collective.
int weft_trainer_evaluate(weft_trainer* trainer, const weft_array* inputs, int num_inputs, const weft_array* target,
                          weft_evaluation* result);
// Writes the model's outputs for any number of this rank's samples; their number may differ between ranks that read different
// samples. An output of another shape is an error that names both. Weights as for an evaluation. Collective.
int weft_trainer_predict(weft_trainer* trainer, const weft_array* inputs, int num_inputs, const weft_array* outputs,
                         int num_outputs);

// --- state -------------------------------------------------------------------------------------------------------------------

// Saves weights, optimizer, clock and kept arrays as a checkpoint: the folder `path`, new or empty, or a URL. replace = 1: an
// existing checkpoint is replaced. Collective.
int weft_trainer_save(weft_trainer* trainer, const char* path, int replace);
// Loads a checkpoint, also one of `weft train`, and of other ranks and layouts; `step` (may be null): steps done. Collective.
int weft_trainer_load(weft_trainer* trainer, const char* path, int64_t* step);
// Starts from the weights in a file, or a checkpoint; optimizer and clock are unchanged. Collective.
int weft_trainer_load_weights(weft_trainer* trainer, const char* path);
// Adds an array of the caller's to checkpoints, under a name, without gaps and the same on all ranks; load() fills it in place.
// Its memory must stay until the trainer is freed, and no other thread may write it during the calls: this one, saves and
// loads. On all ranks, before load().
int weft_trainer_keep(weft_trainer* trainer, const char* name, const weft_array* value);

// Takes a weight, whole, on the host, which is gone after the call.
typedef void (*weft_visit)(void* context, const char* name, const weft_array* value);
// Visits all weights and buffers by name, whole, in any layout. Collective.
int weft_trainer_visit_weights(weft_trainer* trainer, weft_visit visit, void* context);

#ifdef __cplusplus
}
#endif

#endif  // WEFT_H
