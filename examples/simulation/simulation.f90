! A simulation that trains while it runs: a network learns to take a field one time step further. The field is advected and
! diffused on a periodic grid, of which each MPI rank has a slab of columns; samples are exchanged so that each rank trains on
! whole fields. The scheme is a stencil of 3 x 3 points, and so is the network, which comes to the scheme's coefficients.
!
! Build: mpifort /opt/weft/include/weft.f90 simulation.f90 -o simulation -L/opt/weft/lib -lweft_c -Wl,-rpath,/opt/weft/lib
! Run:   mpirun -n 2 ./simulation 127.0.0.1:29500 stencil.pt2   (on 1, 2, 4, 8 or 16 ranks; stencil.py writes stencil.pt2)
module stencils
  use weft
  implicit none
contains
  ! Prints the convolution's weight, if there is a context.
  subroutine show(context, name, value) bind(c)
    type(c_ptr), value :: context, name
    type(weft_array), intent(in) :: value
    real(c_float), pointer :: stencil(:, :)
    if (.not. c_associated(context) .or. value%dims /= 4) return
    call c_f_pointer(value%data, stencil, [3, 3])
    write (*, '(a,3(/3f9.4))') 'the network''s stencil:', stencil
  end subroutine
end module

program simulation
  use mpi
  use stencils
  use weft
  implicit none
  integer, parameter :: n = 32, batch = 16, steps = 300
  real(c_float), parameter :: speed(2) = [0.2, 0.1], diffusion = 0.05  ! in grid points per time step
  character(*), parameter :: lf = new_line('a')
  type(c_ptr) :: world, trainer
  type(weft_step) :: result
  character(4096) :: address, model
  integer(c_int64_t), target :: shape(4), strides(4)
  integer(c_int64_t) :: first, share
  integer :: rank, ranks, width, error, step
  ! `slab` has one more column on each side, of the neighbours. In `parts` and `fields`, [.., 1, sample] is a field and
  ! [.., 2, sample] the same one time step later: `parts` has this rank's columns of all samples, `fields` all of its own samples.
  real(c_float), allocatable :: slab(:, :), parts(:, :, :, :), received(:, :, :, :, :)
  real(c_float), allocatable, target :: fields(:, :, :, :), predicted(:, :, :)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, address)
  call get_command_argument(2, model)
  call check(weft_world_join(rank, ranks, trim(address) // c_null_char, 60.0_c_double, world))
  call check(weft_trainer_make(world, recipe() // c_null_char, c_null_funptr, c_null_ptr, trainer))
  call check(weft_trainer_share(trainer, first, share))
  if (first /= rank * share .or. mod(n, ranks) /= 0) error stop 'the number of ranks must divide 16'

  width = n / ranks
  allocate (slab(n, 0:width + 1), parts(n, width, 2, batch), received(n, width, 2, share, ranks))
  allocate (fields(n, n, 2, share), predicted(n, n, share))

  do step = 1, steps
    call simulate(step)
    call check(weft_trainer_step(trainer, [samples(1)], 1, samples(2), result))
    if (rank == 0 .and. mod(step, 100) == 0) write (*, '(a,i0,a,es8.1)') 'step ', step, ': loss ', result%loss
  end do

  call simulate(0)
  call check(weft_trainer_predict(trainer, [samples(1)], 1, [whole(predicted)], 1))
  call report(maxval(abs(predicted - fields(:, :, 2, :))), maxval(abs(fields(:, :, 2, :) - fields(:, :, 1, :))))
  call check(weft_trainer_visit_weights(trainer, c_funloc(show), merge(c_loc(fields), c_null_ptr, rank == 0)))
  call weft_trainer_free(trainer)
  call weft_world_free(world)
  call MPI_Finalize(error)

contains

  function recipe()
    character(:), allocatable :: recipe
    recipe = 'model = { name = "exported", path = "' // trim(model) // '", inputs = "arrays", loss = "mean_squares" }' // lf // &
             'batch = { global = 16 }' // lf // &
             'optimizer = { name = "adamw", lr = 2e-2, weight_decay = 0.0, decay = "cosine" }' // lf // &
             'run = { steps = 300, threads = 1 }' // lf
  end function

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == weft_ok) return
    write (*, '(a)') weft_error_text()
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine

  ! Runs as many time steps as the batch has samples, from waves of their own for each `run`.
  subroutine simulate(run)
    integer, intent(in) :: run
    integer :: i, of
    call start(run)
    do i = 1, batch
      parts(:, :, 1, i) = slab(:, 1:width)
      call advance()
      parts(:, :, 2, i) = slab(:, 1:width)
    end do
    call MPI_Alltoall(parts, size(parts) / ranks, MPI_REAL, received, size(parts) / ranks, MPI_REAL, MPI_COMM_WORLD, error)
    do of = 1, ranks
      fields(:, (of - 1) * width + 1:of * width, :, :) = received(:, :, :, :, of)
    end do
  end subroutine

  subroutine start(run)
    integer, intent(in) :: run
    integer :: x, y
    do y = 1, width
      do x = 1, n
        slab(x, y) = sin(real(1 + mod(971 * run + 7 * x + 3 * x * y * run, 997)) * (rank * width + y))
      end do
    end do
  end subroutine

  ! A time step: upwind differences, and diffusion.
  subroutine advance()
    real(c_float) :: before(n, 0:width + 1)
    integer :: left, right, status(MPI_STATUS_SIZE)
    left = modulo(rank - 1, ranks)
    right = modulo(rank + 1, ranks)
    call MPI_Sendrecv(slab(:, width), n, MPI_REAL, right, 0, slab(:, 0), n, MPI_REAL, left, 0, MPI_COMM_WORLD, status, error)
    call MPI_Sendrecv(slab(:, 1), n, MPI_REAL, left, 0, slab(:, width + 1), n, MPI_REAL, right, 0, MPI_COMM_WORLD, status, error)
    before = slab
    slab(:, 1:width) = (1 - sum(speed) - 4 * diffusion) * before(:, 1:width) &
      + (speed(1) + diffusion) * cshift(before(:, 1:width), -1, 1) + diffusion * cshift(before(:, 1:width), 1, 1) &
      + (speed(2) + diffusion) * before(:, 0:width - 1) + diffusion * before(:, 2:width + 1)
  end subroutine

  ! Every other field of `fields`, in place. weft's dimensions are Fortran's from back to front: [samples, 1, n, n].
  function samples(which)
    integer, intent(in) :: which
    type(weft_array) :: samples
    shape = [share, 1_c_int64_t, int(n, c_int64_t), int(n, c_int64_t)]
    strides = [2 * n * n, n * n, n, 1]
    samples = weft_array(data=c_loc(fields(1, 1, which, 1)), shape=c_loc(shape), strides=c_loc(strides), dims=4, &
                         type=weft_float32, borrowed=1)
  end function

  function whole(values)
    real(c_float), target, intent(in) :: values(n, n, share)
    type(weft_array) :: whole
    whole = weft_array(data=c_loc(values), shape=c_loc(shape), dims=4, type=weft_float32)
  end function

  subroutine report(own_error, own_change)
    real(c_float), intent(in) :: own_error, own_change
    real(c_float) :: largest(2)
    call MPI_Reduce([own_error, own_change], largest, 2, MPI_REAL, MPI_MAX, 0, MPI_COMM_WORLD, error)
    if (rank == 0) write (*, '(a,f7.5,a,f7.5)') 'unseen: largest error ', largest(1), ', largest change in a time step ', largest(2)
  end subroutine

end program
