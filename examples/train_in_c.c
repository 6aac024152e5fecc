// Learns from C in which quarter of an image a bright spot is, on any number of ranks: weft run -n 2 --
// build/examples/train_in_c
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

enum { kSide = 8, kPixels = kSide * kSide, kBatch = 64, kSteps = 100 };

static const char* const kRecipe =
    "model = { name = 'mlp', layers = 2, width = 32, channels = 1, image_size = 8, classes = 4 }\n"
    "batch = { global = 64, micro = 16 }\n"
    "layout = { shard_level = 'optimizer' }\n"
    "optimizer = { name = 'adamw', lr = 1e-2, warmup = 10, decay = 'cosine' }\n"
    "run = { steps = 100, reproducible_slots = 4 }\n";

static void check(int status) {
  if (status == WEFT_OK) return;
  fprintf(stderr, "%s\n", weft_last_error());
  exit(1);
}

static void print_line(void* context, const char* line) { fprintf(context, "note: %s\n", line); }

// Writes sample `number`, the same on every rank, and its label.
static void make_sample(int64_t number, float* pixels, int32_t* label) {
  uint32_t random = (uint32_t)number * 2654435761u + 12345u;
  for (int i = 0; i < kPixels; ++i) {
    random = random * 1664525u + 1013904223u;
    pixels[i] = (float)(random >> 8) / 16777216.0f;
  }
  const int spot = (int)(random >> 16) % kPixels;
  pixels[spot] += 8.0f;
  *label = (spot / kSide >= kSide / 2) * 2 + (spot % kSide >= kSide / 2);
}

int main(void) {
  weft_world* world;
  weft_trainer* trainer;
  int rank;
  check(weft_world_from_environment(60.0, &world));
  check(weft_world_place(world, &rank, NULL));
  check(weft_trainer_make(world, kRecipe, print_line, stderr, &trainer));

  static float pixels[kBatch * kPixels];
  static int32_t labels[kBatch];
  for (int step = 0; step < kSteps; ++step) {
    int64_t first, count;  // this rank's share of the global batch
    check(weft_trainer_share(trainer, &first, &count));
    for (int64_t i = 0; i < count; ++i) make_sample((int64_t)step * kBatch + first + i, pixels + i * kPixels, labels + i);
    const int64_t shape[] = {count, 1, kSide, kSide};
    const weft_array input = {.data = pixels, .shape = shape, .dims = 4, .type = WEFT_FLOAT32, .borrowed = 1};
    const weft_array target = {.data = labels, .shape = shape, .dims = 1, .type = WEFT_INT32};
    weft_step result;
    check(weft_trainer_step(trainer, &input, 1, &target, &result));
    if (rank == 0 && result.step % 20 == 0) printf("step %d: loss %.9g\n", (int)result.step, result.loss);
  }

  for (int i = 0; i < kBatch; ++i) make_sample(1000000 + i, pixels + i * kPixels, labels + i);  // unseen, whole on every rank
  const int64_t shape[] = {kBatch, 1, kSide, kSide};
  const weft_array input = {.data = pixels, .shape = shape, .dims = 4, .type = WEFT_FLOAT32, .borrowed = 1};
  const weft_array target = {.data = labels, .shape = shape, .dims = 1, .type = WEFT_INT32};
  weft_evaluation unseen;
  check(weft_trainer_evaluate(trainer, &input, 1, &target, &unseen));
  if (rank == 0) printf("unseen: %d of %d right\n", (int)unseen.hits, (int)unseen.targets);
  weft_trainer_free(trainer);
  weft_world_free(world);
  return 0;
}
